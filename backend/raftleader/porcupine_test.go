package raftleader

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
)

const (
	askers    = 5
	askedKeys = 4
)

// historyFor is how long clients ask under faults.
func historyFor() time.Duration {
	if testing.Short() {
		return 5 * time.Second
	}
	return 12 * time.Second
}

// TestHistory_IsLinearizableUnderFaults asks all nodes at once, while nodes are killed and restarted from disk, cut off,
// frozen and asked to step down. No lease ends by itself here, so none may be free that was not released.
func TestHistory_IsLinearizableUnderFaults(t *testing.T) { t.Parallel(); history(t, longTTL, false) }

// TestHistory_HasNoEarlyExpiry does likewise with leases that end, but not before their time: that of the call of their
// last refresh and their TTL.
func TestHistory_HasNoEarlyExpiry(t *testing.T) { t.Parallel(); history(t, 700*time.Millisecond, true) }

func history(t *testing.T, ttl time.Duration, expire bool) {
	t.Helper()
	c := newCrew(t)
	h := newRecorder()
	ctx, cancel := context.WithTimeout(t.Context(), historyFor())
	defer cancel()
	seed := rand.Uint64()
	suffered := make(chan map[string]int, 1)
	go func() { suffered <- c.suffer(ctx, t, rand.New(rand.NewPCG(seed, 0))) }()
	h.askAll(ctx, askers, askedKeys, ttl, c.some)
	t.Logf("seed %d, faults: %v", seed, <-suffered)
	c.leader(t)
	after, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	h.askAll(after, askers, askedKeys, ttl, c.some) // nothing is lost of what was acknowledged
	h.check(t, expire)
	if h.count[acquiring][done] < 20 || h.count[putting][done] < 20 || expire && h.forgotten < 10 {
		t.Errorf("the history is too thin: %v, %d leases were left to their end", h.count, h.forgotten)
	}
}

// stale answers readers from what the node itself has applied, without asking anybody.
type stale struct{ *Backend }

func (s stale) Inspect(_ context.Context, key string) (backend.Holder, error) {
	h, _, _ := s.machine.Changed(key)
	return backend.Holder{Owner: h.Owner, Fence: h.Fence, Kept: h.Kept}, nil
}

// TestHistory_TellsAStaleReader: the check finds a driver out whose node reads what is no longer true.
func TestHistory_TellsAStaleReader(t *testing.T) {
	for name, row := range map[string]struct {
		reader func(b *Backend) driver
		want   porcupine.CheckResult
	}{
		"a node that asks":             {func(b *Backend) driver { return b }, porcupine.Ok},
		"a node that believes its log": {func(b *Backend) driver { return stale{b} }, porcupine.Illegal},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrew(t)
			leader := c.leader(t)
			follower := (leader + 1) % crewSize
			h := newRecorder()
			at := func(d driver) *client {
				return h.newClient(1, 1, longTTL, func(*rand.Rand) driver { return d })
			}
			writer, reader := at(c.nodes[leader].Load()), at(row.reader(c.nodes[follower].Load()))
			ask := func(what string, want result, step func(ctx context.Context) result) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), crewPatience)
				defer cancel()
				if got := step(ctx); got != want {
					t.Fatalf("%s: %s, want %s", what, got, want)
				}
			}
			ask("acquire", done, func(ctx context.Context) result { return writer.acquire(ctx, writer.pick(), "k", "1") })
			c.settled(t, leader, follower)
			c.around(follower, (*netfault.Proxy).Freeze)
			ask("abandon", done, func(ctx context.Context) result { return writer.abandon(ctx, writer.pick(), "k", "1") })
			ask("acquire", done, func(ctx context.Context) result { return writer.acquire(ctx, writer.pick(), "k", "2") })
			read := make(chan result, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), askTimeout)
				defer cancel()
				read <- reader.inspect(ctx, reader.pick(), "k")
			}()
			<-read
			if got := porcupine.CheckOperations(leases(false), h.of(false)); got != (row.want == porcupine.Ok) {
				t.Errorf("linearizable: %v, want %s: %+v", got, row.want, h.of(false))
			}
		})
	}
}

// settled waits until a node has applied what another one has.
func (c *crew) settled(t testing.TB, one, other int) {
	t.Helper()
	a, b := c.nodes[one].Load().machine, c.nodes[other].Load().machine
	until(t, "the node follows", func() bool { return b.Applied() >= a.Applied() })
}
