package k8sleader_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

const (
	controllerName  = "controller"
	controllerLease = 2 * time.Second
	replicas        = 3
)

// reign notes who leads, and fails the test if two do at one time.
type reign struct {
	t testing.TB

	mu      sync.Mutex
	leaders map[string]bool
	terms   []string
}

func (r *reign) begin(who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.leaders) > 0 {
		r.t.Errorf("%s leads together with %v", who, r.leaders)
	}
	r.leaders[who] = true
	r.terms = append(r.terms, who)
}

func (r *reign) end(who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leaders, who)
}

func (r *reign) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.terms)
}

func (r *reign) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.terms) == 0 {
		return ""
	}
	return r.terms[len(r.terms)-1]
}

// A pod is a replica of a controller.
type pod struct {
	name string
	stop func() // ends it, and waits
}

// oldPod leads by client-go. Without release it leaves its Lease to expire, as one that is killed does.
func (r *reign) oldPod(c *cluster, name string, release bool) *pod {
	ctx, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(r.t.Context()), klog.Logger{}))
	client := clientOf(r.t, c.config).CoordinationV1()
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: controllerName, Namespace: c.namespace},
			Client:     client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: controllerLease, RenewDeadline: controllerLease * 3 / 4, RetryPeriod: controllerLease / 8,
		ReleaseOnCancel: release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				r.begin(name)
				<-ctx.Done()
				r.end(name)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			e.Run(ctx)
		}
	})
	return r.started(name, cancel, &running)
}

// newPod leads by this package.
func (r *reign) newPod(c *cluster, name string) *pod {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	e, err := leader.New(c.open(r.t), leader.WithLeaseTime(controllerLease), leader.WithNodeID(name), leader.WithLogger(quiet()))
	if err != nil {
		r.t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		_ = e.Campaign(ctx, controllerName, func(ctx context.Context) error { // it ends with ctx
			r.begin(name)
			defer r.end(name)
			<-ctx.Done()
			return nil
		})
	})
	return r.started(name, cancel, &running)
}

func (r *reign) started(name string, cancel func(), running *sync.WaitGroup) *pod {
	p := &pod{name: name, stop: sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})}
	r.t.Cleanup(p.stop)
	return p
}

// Client-go compares times in whole seconds. It must not count from before a renewal, or a release that keeps the key,
// because that came in the same second.
func TestBackend_ClientGo_CountsFromTheLastChange(t *testing.T) {
	for name, last := range map[string]func(t testing.TB, lease backend.Lease){
		"renewal": func(t testing.TB, lease backend.Lease) { renew(t, lease, controllerLease) },
		"release": func(t testing.TB, lease backend.Lease) { release(t, lease, controllerLease) },
	} {
		t.Run(name, func(t *testing.T) {
			c := sharedCluster(t)
			b := c.open(t)
			inspect(t, b, controllerName) // so that there is a connection
			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
			lease := win(t, b, request(controllerName, controllerLease))
			r := &reign{t: t, leaders: map[string]bool{}}
			r.oldPod(c, "old", true)
			time.Sleep(controllerLease * 2 / 5) // it sees the acquisition, and the second is not over
			sent := time.Now()
			last(t, lease)
			eventually(t, "client-go leads", func() bool { return r.count() > 0 })
			if took := time.Since(sent); took < controllerLease {
				t.Errorf("client-go led %v after the last change of a lease of %v", took, controllerLease)
			}
		})
	}
}

func TestCampaign_ReplacesClientGo_InARollingUpdateOnOneLease(t *testing.T) {
	for _, release := range []bool{true, false} {
		t.Run(fmt.Sprintf("release=%t", release), func(t *testing.T) {
			c := sharedCluster(t)
			r := &reign{t: t, leaders: map[string]bool{}}
			pods := make([]*pod, replicas)
			for i := range pods {
				pods[i] = r.oldPod(c, fmt.Sprintf("old-%d", i), release)
			}
			eventually(t, "an old pod leads", func() bool { return r.count() > 0 })
			r.roll(pods, func(i int) *pod { return r.newPod(c, fmt.Sprintf("new-%d", i)) })
			eventually(t, "a new pod leads", func() bool { return len(r.last()) > 3 && r.last()[:3] == "new" })

			// And back, as an update that is undone.
			r.roll(pods, func(i int) *pod { return r.oldPod(c, fmt.Sprintf("undone-%d", i), release) })
			eventually(t, "an undone pod leads", func() bool { return len(r.last()) > 6 && r.last()[:6] == "undone" })
			t.Logf("terms: %q", r.terms)
		})
	}
}

// roll replaces the pods one by one, and lets the new ones wait beside the old ones.
func (r *reign) roll(pods []*pod, next func(i int) *pod) {
	for i, old := range pods {
		pods[i] = next(i)
		time.Sleep(controllerLease / 8) // for it to join
		old.stop()
	}
}
