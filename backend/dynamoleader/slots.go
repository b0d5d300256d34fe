package dynamoleader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/goleader/leader/backend"
)

// TryAcquireSlot makes one attempt in two requests: a query for the slots, and the update of a free one. Where the slot
// is taken meanwhile it is more. A full group is one request.
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
	numbers := make(map[place]int, n)
	for i := range n {
		numbers[leasePlace(backend.SlotKey(key, i))] = i
	}
	// What the key of a slot has before its number.
	slots := leasePlace(key + "#")
	_, err := b.query(ctx, slots.name, beginning(slots.part), func(item values, a *answer) bool {
		i, ok := numbers[placeIn(item)]
		if !ok {
			return true
		}
		v, err := b.noted(backend.SlotKey(key, i), item, a)
		if err != nil {
			g.harmed[i] = err
		}
		g.slots[i] = v
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
		changed, conflict := refusal(err)
		if err == nil || conflict || isRefusal(err) {
			a.slot = noSlot
		}
		if err == nil {
			return l, i, nil
		}
		if !conflict {
			return nil, 0, err
		}
		g.conflicts[i]++
		if g.slots[i], err = b.after(ctx, backend.SlotKey(req.Key, i), changed); err != nil {
			if !errors.Is(err, errUnreadable) {
				return nil, 0, err
			}
			g.harmed[i] = err
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
		case v.token == token:
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

// isRefusal reports whether the service has surely not done what was asked.
func isRefusal(err error) bool {
	kind := backend.KindOf(err)
	return kind == backend.Denied || kind == backend.Misconfigured
}
