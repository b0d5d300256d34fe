package k8sleader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/goleader/leader/backend"
)

// TryAcquireSlot makes one attempt in two requests: a list of the slots, and the update of a free one. Where the slot has
// no object yet, or is taken meanwhile, it is more.
func (b *Backend) TryAcquireSlot(ctx context.Context, req backend.Request, n int) (backend.Lease, int, error) {
	if err := b.ready(ctx); err != nil {
		return nil, 0, err
	}
	if n < 1 {
		return nil, 0, backend.WithKind(fmt.Errorf("a group of %d slots", n), backend.Misconfigured)
	}
	if err := checkTTL(req.TTL); err != nil {
		return nil, 0, err
	}
	a, err := b.attempts.enter(ctx, req.Token)
	if err != nil {
		return nil, 0, err
	}
	defer b.attempts.exit(req.Token, a)
	for range conflictRetries {
		g, err := b.group(ctx, req.Key, n)
		if err != nil {
			return nil, 0, err
		}
		l, slot, err := b.takeSlot(ctx, req, g, a)
		if l != nil || err != nil {
			return l, slot, err
		}
	}
	return nil, 0, &backend.HeldError{}
}

// group is what was seen of the slots of a group.
type group struct {
	slots     []view
	harmed    map[int]error // slots whose record cannot be read
	conflicts []int         // how often a slot changed under this attempt
}

// group reads the slots 0 to n-1.
func (b *Backend) group(ctx context.Context, key string, n int) (*group, error) {
	g := &group{slots: make([]view, n), harmed: map[int]error{}, conflicts: make([]int, n)}
	numbers := make(map[string]int, n)
	for i := range n {
		numbers[objectName(backend.SlotKey(key, i))] = i
	}
	selector := groupLabel + "=" + hashOf(key)
	err := b.list(ctx, selector, func(object *coordinationv1.Lease, a *answer) bool {
		i, ok := numbers[object.Name]
		if !ok {
			return true
		}
		if s, err := b.note(object, a); err != nil {
			g.harmed[i] = err
		} else {
			g.slots[i] = b.memory.newest(s)
		}
		return true
	})
	return g, err
}

// takeSlot tries the free slots one by one. The lease is nil if others were faster: what was seen of the other slots may be
// as old as what was seen of those.
func (b *Backend) takeSlot(ctx context.Context, req backend.Request, g *group, a *attempt) (backend.Lease, int, error) {
	start := rand.IntN(len(g.slots))
	for {
		// Before each try: an earlier attempt may have arrived meanwhile, or the token may have been spent.
		i, err := g.find(req.Token)
		if err != nil {
			return nil, 0, err
		}
		if i != noSlot {
			a.slot = noSlot
			l, err := b.repeat(ctx, slotRequest(req, i), g.slots[i])
			return l, i, err
		}
		if i = g.choose(start, a.slot); i == noSlot {
			a.slot = noSlot
			if g.outrun() {
				return nil, 0, nil
			}
			return nil, 0, g.full()
		}
		a.slot = i
		l, err := b.take(ctx, slotRequest(req, i), g.slots[i])
		deleted := isMissing(err) && g.slots[i].state != nil
		if err != nil && !isConflict(err) && !deleted {
			if isRefusal(err) {
				a.slot = noSlot
			}
			return nil, 0, err
		}
		a.slot = noSlot
		if err == nil {
			return l, i, nil
		}
		g.conflicts[i]++
		if g.slots[i], err = b.get(ctx, objectName(backend.SlotKey(req.Key, i))); err != nil {
			return nil, 0, err
		}
	}
}

// find returns the slot that the token has, noSlot if it has none, and ErrLost if it is spent.
func (g *group) find(token string) (slot int, err error) {
	slot = noSlot
	for i, v := range g.slots {
		switch {
		case v.state == nil:
		case v.spent == token:
			return noSlot, backend.ErrLost
		case v.tenure == held && v.token == token:
			slot = i
		}
	}
	return slot, nil
}

func slotRequest(req backend.Request, slot int) backend.Request {
	req.Key = backend.SlotKey(req.Key, slot)
	return req
}

// choose returns a free slot, the first one from start on. It prefers one, so that an earlier attempt there, whose
// outcome is unknown, cannot win another slot beside.
func (g *group) choose(start, prefer int) int {
	if prefer != noSlot && prefer < len(g.slots) && g.free(prefer) {
		return prefer
	}
	for i := range g.slots {
		if slot := (start + i) % len(g.slots); g.free(slot) {
			return slot
		}
	}
	return noSlot
}

func (g *group) free(slot int) bool {
	return g.harmed[slot] == nil && g.conflicts[slot] <= conflictRetries && !g.slots[slot].taken()
}

// outrun reports whether others took a slot that had been free.
func (g *group) outrun() bool { return slices.Max(g.conflicts) > 0 }

// full is the error of a group without a free slot.
func (g *group) full() error {
	var first backend.Holder
	for _, v := range g.slots {
		if h := v.holder(); !h.Free() && (first.Free() || h.Remaining < first.Remaining) {
			first = h
		}
	}
	if first.Free() {
		for _, err := range g.harmed {
			return err
		}
	}
	return &backend.HeldError{Holder: first}
}

const (
	noSlot = -1
	// An attempt that nobody abandoned is forgotten after this time, when nothing of it can arrive any more.
	attemptFor = 10 * time.Minute
)

// attempts are those on groups that have begun. Two with one token must not win two slots, so they go one by one, and
// one after an unknown outcome begins where that was.
type attempts struct {
	mu   sync.Mutex
	open map[string]*attempt // by token
}

// attempt is all attempts with one token.
type attempt struct {
	busy  chan struct{} // holds a value while one runs
	users int
	slot  int // where the outcome of the last one is unknown, else noSlot; used by the one that runs
	used  time.Time
}

// enter waits until no other attempt with the token runs.
func (s *attempts) enter(ctx context.Context, token string) (*attempt, error) {
	s.mu.Lock()
	if s.open == nil {
		s.open = map[string]*attempt{}
	}
	a := s.open[token]
	if a == nil {
		s.forget()
		a = &attempt{busy: make(chan struct{}, 1), slot: noSlot}
		s.open[token] = a
	}
	a.users++
	s.mu.Unlock()
	select {
	case a.busy <- struct{}{}:
		return a, nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		a.users--
		return nil, ctx.Err()
	}
}

// exit lets the next one run, and forgets attempts that are settled.
func (s *attempts) exit(token string, a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	settled := a.slot == noSlot
	<-a.busy
	a.used = time.Now()
	if a.users--; a.users == 0 && settled {
		delete(s.open, token)
	}
}

// settle forgets the attempts with a token that is never used again.
func (s *attempts) settle(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.open[token]; a != nil && a.users == 0 {
		delete(s.open, token)
	}
}

// forget drops old attempts. s.mu is held.
func (s *attempts) forget() {
	for token, a := range s.open {
		if a.users == 0 && time.Since(a.used) > attemptFor {
			delete(s.open, token)
		}
	}
}

// isRefusal reports whether the server has surely not done what was asked.
func isRefusal(err error) bool {
	return slices.Contains([]backend.Kind{backend.Denied, backend.Misconfigured}, backend.KindOf(err))
}
