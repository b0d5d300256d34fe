package k8sleader_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

func elector(t testing.TB, d backend.Driver, node string, lease time.Duration) *leader.Single {
	t.Helper()
	e, err := leader.New(d, leader.WithLeaseTime(lease), leader.WithNodeID(node), leader.WithLogger(quiet()))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestBackend_AwaitRelease_SharesOneWatch(t *testing.T) {
	c := sharedCluster(t)
	b, w := openWired(t, c)
	other := c.open(t)
	for range 3 { // the watch stays open in between
		lease := win(t, other, request("a", long))
		seen := holder(t, b, "a").Seen
		var waiters sync.WaitGroup
		for range 50 {
			waiters.Go(func() {
				if err := b.AwaitRelease(t.Context(), "a", seen); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(200 * time.Millisecond) // for most of them to be waiting
		release(t, lease, 0)
		waiters.Wait()
	}
	if n := w.watches.Load(); n != 1 {
		t.Errorf("%d watches for 150 waiters", n)
	}
}

func TestBackend_AwaitRelease_HandsOverInTwoRequests(t *testing.T) {
	c := sharedCluster(t)
	from, out := openWired(t, c)
	to, in := openWired(t, c)
	lease := win(t, from, request("a", long))
	seen := holder(t, to, "a").Seen
	woken := make(chan error, 1)
	go func() { woken <- to.AwaitRelease(t.Context(), "a", seen) }()
	eventually(t, "the watch is open and the Lease was read", func() bool { return in.replies.Load() >= 4 })
	before := out.requests.Load() + in.requests.Load()
	release(t, lease, 0)
	if err := receive(t, woken); err != nil {
		t.Fatal(err)
	}
	win(t, to, request("a", long))
	if n := out.requests.Load() + in.requests.Load() - before; n != 2 {
		t.Errorf("%d requests", n)
	}
}

func TestBackend_TimedOutRequest_GivesUpItsConnections(t *testing.T) {
	c := sharedCluster(t)
	b, w := openWired(t, c)
	win(t, c.open(t), request("a", long))
	seen := holder(t, b, "a").Seen
	waiting := make(chan error, 1)
	go func() { waiting <- b.AwaitRelease(t.Context(), "a", seen) }()
	eventually(t, "the watch is open and the Lease was read", func() bool { return w.replies.Load() >= 4 })
	w.before.set(func(request *http.Request) error {
		<-request.Context().Done()
		return request.Context().Err()
	})
	closed := w.closed.Load()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := b.Inspect(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Inspect: %v", err)
	}
	if err := receive(t, waiting); err == nil {
		t.Error("a watch on a connection that may be dead goes on")
	}
	if w.closed.Load() == closed {
		t.Error("idle connections stay open")
	}
}

func TestBackend_Close_EndsWaitersAndWatchers(t *testing.T) {
	c := sharedCluster(t)
	b := c.open(t)
	win(t, b, request("a", long))
	seen := holder(t, b, "a").Seen
	ended := make(chan error, 2)
	go func() { ended <- b.AwaitRelease(t.Context(), "a", seen) }()
	watching := make(chan error)
	go func() {
		var last error
		for _, err := range b.Watch(t.Context(), "a") {
			if last = err; err == nil {
				close(watching)
			}
		}
		ended <- last
	}()
	if err := receive(t, watching); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := receive(t, ended); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("ended with %v", err)
		}
	}
	if err := b.AwaitRelease(t.Context(), "a", seen); err == nil {
		t.Error("AwaitRelease works on a closed backend")
	}
	if inspect(t, b, "a").Free() {
		t.Error("Close ended a lease")
	}
}

func TestBackend_Watch_TellsOfAnExpiry(t *testing.T) {
	c := sharedCluster(t)
	b := c.open(t)
	win(t, c.open(t), request("a", brief))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var owners []string
	for h, err := range b.Watch(ctx, "a") {
		if err != nil {
			t.Fatal(err)
		}
		if owners = append(owners, h.Owner); h.Free() {
			break
		}
	}
	if strings.Join(owners, ",") != "node-1," {
		t.Errorf("owners %q", owners)
	}
}

func TestRunIfLeader_ShortRunOpensNoWatch(t *testing.T) {
	c := sharedCluster(t)
	b, w := openWired(t, c)
	e := elector(t, b, "node-1", 10*time.Second)
	run := func() {
		t.Helper()
		if _, err := e.RunIfLeader(t.Context(), "a", func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	run()
	// Create, update, patch, and the deletion by which the advice that is asked for after the first run ends.
	eventually(t, "advice was given", func() bool { return w.writes.Load() >= 4 })
	before, slow := w.watches.Load(), int64(0)
	for range 20 {
		began := time.Now()
		if run(); time.Since(began) > 50*time.Millisecond {
			slow++ // on a busy machine
		}
	}
	if n := w.watches.Load() - before; n > slow {
		t.Errorf("%d watches for 20 runs, of which %d were slow", n, slow)
	}
}

func TestRunIfLeader_GivingUpLeavesNothing(t *testing.T) {
	c := sharedCluster(t)
	b, w := openWired(t, c)
	win(t, c.open(t), request("held", long))
	e := elector(t, b, "node-2", 10*time.Second)
	before := c.get(t, "held")
	giveUp := func(n int) {
		t.Helper()
		var callers sync.WaitGroup
		for i := range n {
			callers.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				stop := time.AfterFunc(time.Duration(i%50)*time.Millisecond, cancel)
				defer stop.Stop()
				_, err := e.RunIfLeader(ctx, "held", func(context.Context) error { return errors.New("ran") },
					leader.WithWaitTime(30*time.Millisecond))
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
			})
			if i%50 == 49 {
				callers.Wait()
			}
		}
		callers.Wait()
	}
	giveUp(20)
	goroutines := runtime.NumGoroutine()
	giveUp(1000)
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines })
	after := c.get(t, "held")
	if after.ResourceVersion != before.ResourceVersion {
		t.Error("giving up has changed the Lease")
	}
	list, err := c.leases.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("%d Leases, %v, want one", len(list.Items), err)
	}
	if n := w.watches.Load(); n > 5 {
		t.Errorf("%d watches", n)
	}
}

// lossOf edits or deletes the object below a leader, and returns how long it took until the leader noticed, and until
// somebody led again.
func lossOf(t *testing.T, harm func(c *cluster)) (noticed, again time.Duration) {
	t.Helper()
	const lease = 6 * time.Second
	c := sharedCluster(t)
	held, leads := openWired(t, c)
	contending, waits := openWired(t, c)
	a, b := elector(t, held, "a", lease), elector(t, contending, "b", lease)
	l, err := a.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	led := make(chan time.Time, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	var campaign sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		campaign.Wait()
	})
	campaign.Go(func() {
		_ = b.Campaign(ctx, "job", func(ctx context.Context) error { // it ends with ctx
			led <- time.Now()
			<-ctx.Done()
			return nil
		})
	})
	eventually(t, "both watch", func() bool { return leads.watches.Load() > 0 && waits.watches.Load() > 0 })
	began := time.Now()
	harm(c)
	select {
	case <-l.Context().Done():
	case <-ctx.Done():
		t.Fatal("never noticed")
	}
	noticed = time.Since(began)
	cause := context.Cause(l.Context())
	if !errors.Is(cause, leader.ErrLeaseLost) || !errors.Is(cause, leader.ErrTakenOver) {
		t.Errorf("cause %v, want ErrLeaseLost and ErrTakenOver", cause)
	}
	select {
	case at := <-led:
		again = at.Sub(began)
	case <-ctx.Done():
		t.Fatal("never led again")
	}
	return noticed, again
}

func TestAcquire_DeletedOrEditedLease_IsLostAtOnceAndLedAgain(t *testing.T) {
	for name, harm := range map[string]func(t testing.TB, c *cluster){
		"deleted": func(t testing.TB, c *cluster) {
			t.Helper()
			if err := c.leases.Delete(t.Context(), "job", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		},
		"freed": func(t testing.TB, c *cluster) {
			t.Helper()
			c.edit(t, "job", func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = nil })
		},
		"given away": func(t testing.TB, c *cluster) {
			t.Helper()
			c.edit(t, "job", func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = new("nobody's") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			noticed, again := lossOf(t, func(c *cluster) { harm(t, c) })
			if noticed > time.Second {
				t.Errorf("noticed after %v", noticed)
			}
			if again > 7*time.Second {
				t.Errorf("led again after %v, want a lease at most", again)
			}
		})
	}
}

func TestLease_Lost_IsToldWhenTheLeaseExpires(t *testing.T) {
	c := sharedCluster(t)
	lease := win(t, c.open(t), request("a", brief))
	n, ok := lease.(backend.LossNotifier)
	if !ok {
		t.Fatal("a lease that does not tell of its loss")
	}
	select {
	case <-n.Lost():
	case <-time.After(patience):
		t.Fatal("never told")
	}
}

func TestBackend_Lease_FollowersEndWithRelease(t *testing.T) {
	c := sharedCluster(t)
	b := c.open(t)
	before := ofBackends()
	for range 30 {
		lease := win(t, b, request("a", long))
		if n, ok := lease.(backend.LossNotifier); ok {
			n.Lost()
		}
		renew(t, lease, long) // which begins to follow
		release(t, lease, 0)
	}
	eventually(t, "the goroutines have ended", func() bool { return ofBackends() <= before })
}

// ofBackends counts what backends do on all goroutines. Those of connections come and go by themselves.
func ofBackends() int {
	stacks := make([]byte, 4<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "k8sleader.(*")
}
