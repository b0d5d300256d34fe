package k8sleader

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/benchtest"
	"github.com/goleader/leader/internal/testserver"
)

func benchClient(b *testing.B) coordination.CoordinationV1Interface {
	b.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", testserver.Kube(b).Config())
	if err != nil {
		b.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	return client.CoordinationV1()
}

func benchElector(b *testing.B, d backend.Driver) *leader.Single {
	b.Helper()
	e, err := leader.New(d, leader.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// rawLease sends the requests of the driver by the raw client.
type rawLease struct {
	leases coordination.LeaseInterface
	object *coordinationv1.Lease
}

func newRawLease(b *testing.B, client coordination.CoordinationV1Interface, name string) *rawLease {
	b.Helper()
	r := &rawLease{leases: client.Leases(defaultNamespace)}
	object := New(client, nil).newObject(name)
	var err error
	if r.object, err = r.leases.Create(b.Context(), object, metav1.CreateOptions{FieldManager: fieldManager}); err != nil {
		b.Fatal(err)
	}
	return r
}

func (r *rawLease) acquire(ctx context.Context, token string) error {
	s, err := read(r.object.DeepCopy())
	if err != nil {
		return err
	}
	req := backend.Request{Key: r.object.Name, Token: token, Owner: "node-1", TTL: 30 * time.Second}
	object, err := claim(s, req)
	if err != nil {
		return err
	}
	r.object, err = r.leases.Update(ctx, object, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

func (r *rawLease) release(ctx context.Context) error {
	s, err := read(r.object.DeepCopy())
	if err != nil {
		return err
	}
	body, err := ending(s.term(), s.stamp, 0).encode()
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	r.object, err = r.leases.Patch(ctx, r.object.Name, types.JSONPatchType, body, options)
	return err
}

// clientGo runs a term of client-go's leaderelection.
func clientGo(ctx context.Context, client coordination.CoordinationV1Interface) error {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.Logger{})) // it logs every step
	defer cancel()
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: "client-go", Namespace: defaultNamespace},
			Client:     client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: rand.Text()},
		},
		LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RetryPeriod: 5 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { cancel() },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	e.Run(ctx)
	return nil
}

// BenchmarkAcquireRelease compares one term of the engine over the driver, and of the driver, with the driver's own two
// requests sent by the raw client, and with client-go's leaderelection.
func BenchmarkAcquireRelease(b *testing.B) {
	client := benchClient(b)
	driver := New(client, nil)
	b.Cleanup(func() { _ = driver.Close() })
	elector := benchElector(b, driver)
	raw := newRawLease(b, client, "requests")
	var c benchtest.Contest
	c.Add("requests", func(ctx context.Context) error {
		if err := raw.acquire(ctx, rand.Text()); err != nil {
			return err
		}
		return raw.release(ctx)
	})
	c.Add("driver", func(ctx context.Context) error {
		req := backend.Request{Key: "driver", Token: rand.Text(), Owner: "node-1", TTL: 30 * time.Second}
		lease, err := driver.TryAcquire(ctx, req)
		if err != nil {
			return err
		}
		return lease.Release(ctx, 0)
	})
	c.Add("run", func(ctx context.Context) error {
		result, err := elector.RunIfLeader(ctx, "run", func(context.Context) error { return nil })
		return errors.Join(err, result.Err)
	})
	c.Add("client-go", func(ctx context.Context) error { return clientGo(ctx, client) })
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "driver", "requests")
	benchtest.Ratio(b, medians, "run", "requests")
	benchtest.Ratio(b, medians, "run", "client-go")
}

// BenchmarkHeld compares a losing attempt with its one request sent by the raw client.
func BenchmarkHeld(b *testing.B) {
	client := benchClient(b)
	driver, other := New(client, nil), New(client, nil)
	win := backend.Request{Key: "held", Token: rand.Text(), Owner: "node-1", TTL: time.Hour}
	if _, err := other.TryAcquire(b.Context(), win); err != nil {
		b.Fatal(err)
	}
	elector := benchElector(b, driver)
	var c benchtest.Contest
	c.Add("request", func(ctx context.Context) error {
		_, err := client.Leases(defaultNamespace).Get(ctx, "held", metav1.GetOptions{})
		return err
	})
	c.Add("driver", func(ctx context.Context) error {
		req := backend.Request{Key: "held", Token: rand.Text(), Owner: "node-2", TTL: 30 * time.Second}
		if _, err := driver.TryAcquire(ctx, req); !errors.Is(err, backend.ErrHeld) {
			return errors.New("not refused")
		}
		return nil
	})
	c.Add("skip", func(ctx context.Context) error {
		_, err := elector.RunIfLeader(ctx, "held", func(context.Context) error { return errors.New("ran") })
		return err
	})
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "driver", "request")
	benchtest.Ratio(b, medians, "skip", "request")
}

// BenchmarkHandOff compares a release that a waiting elector takes up with a release, its event and an update, sent by
// the raw client.
func BenchmarkHandOff(b *testing.B) {
	client := benchClient(b)
	raw := newRawLease(b, client, "raw")
	stream, err := raw.leases.Watch(b.Context(), metav1.ListOptions{FieldSelector: "metadata.name=raw"})
	if err != nil {
		b.Fatal(err)
	}
	defer stream.Stop()
	holder, waiter := New(client, nil), New(client, nil)
	b.Cleanup(func() { _, _ = holder.Close(), waiter.Close() })
	sides := []*leader.Single{benchElector(b, holder), benchElector(b, waiter)}

	var raws, ours []time.Duration
	for b.Loop() {
		raws = append(raws, rawHandOff(b, raw, stream))
		ours = append(ours, handOff(b, sides[0], sides[1]))
	}
	slices.Sort(raws)
	slices.Sort(ours)
	medians := map[string]time.Duration{"raw": raws[len(raws)/2], "hand-off": ours[len(ours)/2]}
	for name, d := range medians {
		b.ReportMetric(float64(d.Nanoseconds())/1e3, name+"-µs")
	}
	benchtest.Ratio(b, medians, "hand-off", "raw")
}

func rawHandOff(b *testing.B, raw *rawLease, stream watch.Interface) time.Duration {
	b.Helper()
	if err := raw.acquire(b.Context(), rand.Text()); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if err := raw.release(b.Context()); err != nil {
		b.Fatal(err)
	}
	for event := range stream.ResultChan() {
		if object, ok := event.Object.(*coordinationv1.Lease); ok && object.ResourceVersion == raw.object.ResourceVersion {
			break
		}
	}
	if err := raw.acquire(b.Context(), rand.Text()); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	if err := raw.release(b.Context()); err != nil {
		b.Fatal(err)
	}
	return took
}

// handOff returns the time from the call of Release to the start of the waiter's action.
func handOff(b *testing.B, from, to *leader.Single) time.Duration {
	b.Helper()
	lease, err := from.Acquire(b.Context(), "hand-off")
	if err != nil {
		b.Fatal(err)
	}
	started := make(chan time.Time, 1)
	done := make(chan error, 1)
	go func() {
		action := func(context.Context) error {
			started <- time.Now()
			return nil
		}
		_, err := to.RunIfLeader(b.Context(), "hand-off", action, leader.WithWaitTime(time.Minute))
		done <- err
	}()
	time.Sleep(20 * time.Millisecond) // so that it mostly waits
	began := time.Now()
	if err := lease.Release(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	return (<-started).Sub(began)
}
