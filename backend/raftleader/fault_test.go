package raftleader_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader"
	"github.com/goleader/leader/backend/raftleader/internal/machine"
)

// try makes an attempt, for a lease of the given time, until it is answered.
func try(t testing.TB, b *raftleader.Backend, key, token string, ttl time.Duration) (backend.Lease, error) {
	t.Helper()
	var l backend.Lease
	err := settled(t, func(ctx context.Context) error {
		req := request(key, token)
		req.TTL = ttl
		var err error
		l, err = b.TryAcquire(ctx, req)
		return err
	})
	return l, err
}

// moveTo makes node i the raft leader.
func (c *nodes) moveTo(i int) {
	c.t.Helper()
	eventually(c.t, "the node is the raft leader", func() bool {
		if c.list[i].Leads() {
			return true
		}
		_ = c.list[c.leader()].Raft().LeadershipTransferToServer(server(c, i)).Error() // another try follows
		return c.list[i].Leads()
	})
}

// moveAway makes another node than i the raft leader, and returns its number.
func (c *nodes) moveAway(i int) int {
	c.t.Helper()
	to := (i + 1) % len(c.list)
	c.moveTo(to)
	return to
}

func TestBackend_ALostRaftLeader_LosesNoLease(t *testing.T) {
	for _, kind := range []string{"on disk", "in memory"} {
		t.Run(kind, func(t *testing.T) {
			var changes []change
			if kind == "on disk" {
				changes = append(changes, durable(t))
			}
			c := startNodes(t, 3, changes...)
			for range 3 {
				leader := c.leader()
				one, other := c.list[(leader+1)%3], c.list[(leader+2)%3]
				l := acquire(t, one, "job", "a"+time.Now().String())
				c.kill(leader)
				if _, err := try(t, other, "job", "b", ttl); !errors.Is(err, backend.ErrHeld) {
					t.Errorf("got %v, want ErrHeld by the lease of before", err)
				}
				renewed(t, l)
				released(t, l)
				next := acquire(t, other, "job", "c"+time.Now().String())
				if next.Fence() <= l.Fence() {
					t.Errorf("fence %d after %d", next.Fence(), l.Fence())
				}
				released(t, next)
				c.start(leader)
				c.leader()
				c.complete()
			}
		})
	}
}

func TestBackend_ARaftLeaderThatIsCutOff_IsReplacedWithItsHolders(t *testing.T) {
	c := newNodes(t, 3)
	c.faulty()
	for i := range c.list {
		c.start(i)
	}
	const lease = 2 * election
	old := c.leader()
	began := time.Now()
	l, err := try(t, c.list[old], "job", "a", lease)
	if err != nil {
		t.Fatal(err)
	}
	heal := c.isolate(old)
	defer heal()
	ctx, cancel := context.WithTimeout(t.Context(), 2*election)
	defer cancel()
	err = l.Renew(ctx, lease)
	if backend.KindOf(err) != backend.Unavailable || errors.Is(err, backend.ErrLost) {
		t.Errorf("renewal without a quorum: %v, want Unavailable", err)
	}
	other := c.list[(old+1)%3]
	var next backend.Lease
	eventually(t, "the holder is replaced", func() bool {
		next, err = try(t, other, "job", "b", ttl)
		return err == nil
	})
	if took := time.Since(began); took < lease {
		t.Errorf("replaced %v after an acquisition for %v", took, lease)
	}
	heal()
	err = errors.New("not yet asked")
	eventually(t, "the old holder is told", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*election)
		defer cancel()
		err = l.Renew(ctx, lease)
		return errors.Is(err, backend.ErrLost)
	})
	renewed(t, next)
	if next.Fence() <= l.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), l.Fence())
	}
}

func TestBackend_WithoutAQuorum_ElectsNobodyAndSaysSo(t *testing.T) {
	c := startNodes(t, 3, durable(t))
	l := acquire(t, c.list[0], "job", "a")
	c.kill(1)
	c.kill(2)
	calls := map[string]func(ctx context.Context) error{
		"TryAcquire of a free key": func(ctx context.Context) error {
			_, err := c.list[0].TryAcquire(ctx, request("other", "b"))
			return err
		},
		"TryAcquire of a held key": func(ctx context.Context) error {
			_, err := c.list[0].TryAcquire(ctx, request("job", "b"))
			return err
		},
		"Inspect": func(ctx context.Context) error { _, err := c.list[0].Inspect(ctx, "job"); return err },
		"Renew":   func(ctx context.Context) error { return l.Renew(ctx, ttl) },
		"Release": func(ctx context.Context) error { return l.Release(ctx, 0) },
	}
	eventually(t, "the node knows no raft leader", func() bool { return !c.list[0].Knows() })
	for name, call := range calls {
		for _, limit := range []time.Duration{election, patience} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			err := call(ctx)
			cancel()
			if backend.KindOf(err) != backend.Unavailable || !strings.Contains(err.Error(), "no quorum") {
				t.Errorf("%s within %v: %v, want Unavailable for lack of a quorum", name, limit, err)
			}
			if errors.Is(err, context.DeadlineExceeded) != (limit == election) {
				t.Errorf("%s within %v: %v", name, limit, err)
			}
		}
	}
	c.start(1)
	renewed(t, l)
}

// The log of a follower has what is committed, but its machine lags by up to the 50 ms after which the raft leader tells
// it. A new leader that answered by that would not know the newest lease.
func TestBackend_ANewRaftLeader_KnowsWhatWasCommitted(t *testing.T) {
	c := startNodes(t, 3)
	for range 20 {
		from := c.leader()
		to := (from + 1) % 3
		l := acquire(t, c.list[from], "job", "a"+time.Now().String())
		if err := c.list[from].Raft().LeadershipTransferToServer(server(c, to)).Error(); err != nil {
			t.Logf("transfer: %v", err)
		}
		h, err := c.list[to].Inspect(t.Context(), "job")
		if err != nil || h.Fence != l.Fence() {
			t.Fatalf("got %+v, %v, want fence %d", h, err, l.Fence())
		}
		released(t, c.list[to].Bound(l))
	}
}

func TestOffice_ATimeOfAnEarlierTerm_HasNoEffect(t *testing.T) {
	c := startNodes(t, 3)
	i := c.leader()
	office := c.list[i].Office()
	c.moveAway(i)
	c.moveTo(i) // which has taken office again, for another term
	before := c.list[i].Machine().Now()
	_, err := office.Propose(t.Context(), machine.Command{Kind: machine.Acquire, Key: "job", Token: "a", TTL: 1e6})
	if !raftleader.HasNoEffect(err) {
		t.Fatalf("got %v, want an error that says that it has no effect", err)
	}
	acquire(t, c.list[i], "other", "b")
	for _, b := range c.list {
		eventually(t, "the later entry is applied", func() bool { return !b.Machine().Holder("other", 0).Free() })
		if h := b.Machine().Holder("job", 0); !h.Free() {
			t.Errorf("got %+v, want a void entry", h)
		}
	}
	if now, clock := c.list[i].Machine().Now(), c.list[i].Office().Now(); now < before || now > clock {
		t.Errorf("the time of the log is %d, was %d, and is at most %d", now, before, clock)
	}
}

func TestOffice_IsNotConfirmedAfterItsTerm(t *testing.T) {
	c := startNodes(t, 3)
	i := c.leader()
	office := c.list[i].Office()
	if err := office.Confirm(t.Context()); err != nil {
		t.Fatalf("in its term: %v", err)
	}
	c.moveAway(i)
	if err := office.Confirm(t.Context()); err == nil {
		t.Error("it is confirmed although another node is the raft leader")
	}
	c.moveTo(i)
	if err := office.Confirm(t.Context()); err == nil {
		t.Error("it is confirmed in a later term")
	}
}

func TestOffice_IsNotConfirmedWithoutAQuorum(t *testing.T) {
	c := newNodes(t, 3)
	c.faulty()
	for i := range c.list {
		c.start(i)
	}
	i := c.leader()
	office := c.list[i].Office()
	defer c.isolate(i)()
	if err := office.Confirm(t.Context()); !raftleader.HasNoEffect(err) {
		t.Errorf("got %v, want no confirmation", err)
	}
}

// A reader who is told that a lease is over must not find it alive again under a leader whose clock is behind.
func TestBackend_Inspect_PutsIntoTheLogThatALeaseIsOver(t *testing.T) {
	c := startNodes(t, 3)
	const lease = 300 * time.Millisecond
	if _, err := try(t, c.list[0], "job", "a", lease); err != nil {
		t.Fatal(err)
	}
	leader := c.list[c.leader()]
	eventually(t, "the lease is over", func() bool {
		h, err := leader.Inspect(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		return h.Free()
	})
	if h := leader.Machine().Holder("job", 0); !h.Free() {
		t.Errorf("by the log it is %+v", h)
	}
}
