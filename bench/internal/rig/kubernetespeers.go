package rig

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/internal/testserver"
)

// retryPeriod is how often a candidate of client-go looks, at the least, as its documentation recommends.
const retryPeriod = 2 * time.Second

// ClientGo returns a term of client-go's leaderelection: from the start of a candidate until it has released what it
// led.
func (k *Kubernetes) ClientGo() Op {
	return func(ctx context.Context) error {
		c, err := startCandidate(ctx, k.client, "client-go")
		if err != nil {
			return err
		}
		return errors.Join(c.awaitLead(ctx), c.end())
	}
}

// ClientGoHandoff returns the hand-off between two candidates of client-go, each with a client of its own. The one that
// waits has begun at any time within the period at which it looks.
func (k *Kubernetes) ClientGoHandoff(t testserver.TB) contest.Way {
	t.Helper()
	const name = "client-go-hand-off"
	from, to := k.dial(t, nil), k.dial(t, nil)
	return func(ctx context.Context) (time.Duration, error) {
		first, err := startCandidate(ctx, from, name)
		if err != nil {
			return 0, err
		}
		if err := first.awaitLead(ctx); err != nil {
			return 0, errors.Join(err, first.end())
		}
		next, err := startCandidate(ctx, to, name)
		if err != nil {
			return 0, errors.Join(err, first.end())
		}
		waited := httpSettle + mathrand.N(retryPeriod)
		took, err := passAfter(waited, func() error { return next.awaitLead(ctx) }, first.end)
		return took, errors.Join(err, next.end())
	}
}

// candidate takes part in an election of client-go's.
type candidate struct {
	led, done chan struct{}
	cancel    context.CancelFunc
}

// startCandidate starts one that is set as its documentation recommends, but for the lease, which is everybody's. It
// logs nothing.
func startCandidate(
	ctx context.Context, client coordination.CoordinationV1Interface, name string,
) (*candidate, error) {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.Logger{}))
	c := &candidate{led: make(chan struct{}), done: make(chan struct{}), cancel: cancel}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: name, Namespace: namespace},
			Client:     client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: rand.Text()},
		},
		LeaseDuration: lease, RenewDeadline: lease * 2 / 3, RetryPeriod: retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(c.led) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		cancel()
		return nil, err
	}
	go func() {
		elector.Run(ctx)
		close(c.done)
	}()
	return c, nil
}

func (c *candidate) awaitLead(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-c.led:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("did not lead"), ctx.Err())
	}
}

// end returns when the candidate has released what it led.
func (c *candidate) end() error {
	c.cancel()
	<-c.done
	return nil
}
