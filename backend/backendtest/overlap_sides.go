package backendtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

// The nodes.
const (
	holderNode    = "holder"
	contenderNode = "contender"
)

func seedName(i int) string { return fmt.Sprintf("job-%02d", i) }

func newElector(t testing.TB, d backend.Driver, node string, lease time.Duration) *leader.Single {
	t.Helper()
	e, err := leader.New(d, leader.WithNodeID(node), leader.WithLeaseTime(lease),
		leader.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return e
}

// holder is a node that has the leases of all names, and renews them. It does not come back for those that it loses.
type holder struct {
	*ledger

	leases []*leader.Lease
}

// hold acquires all names one after another within about the given time.
func hold(t testing.TB, d backend.Driver, lease, within time.Duration) *holder {
	t.Helper()
	e := newElector(t, d, holderNode, lease)
	h := &holder{ledger: newLedger(t)}
	t.Cleanup(h.release)
	pace := time.NewTicker(max(within/seeds, 1))
	defer pace.Stop()
	for i := range seeds {
		l, err := e.Acquire(t.Context(), seedName(i), leader.WithWaitTime(patience))
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		l.Context().Done() // from now on its end is driven by a timer, as in any action that listens
		h.leases = append(h.leases, l)
		h.add(l)
		<-pace.C
	}
	return h
}

// lostOne reports whether a lease is over.
func (h *holder) lostOne() bool {
	return slices.ContainsFunc(h.leases, func(l *leader.Lease) bool { return l.Err() != nil })
}

// release gives all leases back.
func (h *holder) release() {
	for _, l := range h.leases {
		_ = l.Release(l.Context()) // a lost one reports that
	}
}

// work is what a leader does with its right. It is told the name and the fence.
type work func(name string, fence uint64)

func idle(string, uint64) {}

// contender is a node that campaigns for all names at the same time.
type contender struct {
	*ledger

	work    work // once in each term
	elector *leader.Single
	scout   *scout
	stop    func() // ends all campaigns and waits for them

	mu      sync.Mutex
	leading map[string]*leader.Lease
}

func contend(t testing.TB, d backend.Driver, lease time.Duration, w work) *contender {
	t.Helper()
	s := &scout{Driver: d, refused: make(map[string]bool)}
	c := &contender{
		ledger: newLedger(t), work: w, scout: s, elector: newElector(t, s, contenderNode, lease),
		leading: make(map[string]*leader.Lease),
	}
	ctx, cancel := context.WithCancel(t.Context())
	var campaigns sync.WaitGroup
	for i := range seeds {
		campaigns.Go(func() {
			if err := c.elector.Campaign(ctx, seedName(i), c.lead); !errors.Is(err, context.Canceled) {
				t.Errorf("Campaign: %v, want that it ends with its context", err)
			}
		})
	}
	c.stop = sync.OnceFunc(func() {
		cancel()
		campaigns.Wait()
	})
	t.Cleanup(c.stop)
	return c
}

// lead is the action of the campaigns.
func (c *contender) lead(ctx context.Context) error {
	l, ok := leader.LeaseFrom(ctx)
	if !ok {
		return nil // lost before the first check
	}
	c.add(l)
	name := l.Info().Name
	c.work(name, l.Info().Fence)
	c.mu.Lock()
	c.leading[name] = l
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	delete(c.leading, name)
	c.mu.Unlock()
	return context.Cause(ctx)
}

// leads returns the lease by which the contender leads name, nil if it does not.
func (c *contender) leads(name string) *leader.Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leading[name]
}

func (c *contender) leadsAll() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.leading) == seeds
}

// scout is a driver that notes which keys it found held.
type scout struct {
	backend.Driver

	mu      sync.Mutex
	refused map[string]bool
}

// Unwrap shows the abilities of the driver.
func (s *scout) Unwrap() backend.Driver { return s.Driver }

// TryAcquire implements [backend.Driver].
func (s *scout) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	l, err := s.Driver.TryAcquire(ctx, req)
	if errors.Is(err, backend.ErrHeld) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refused[req.Key] = true
	}
	return l, err
}

// refusedAll reports whether every name was found held.
func (s *scout) refusedAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.refused) == seeds
}
