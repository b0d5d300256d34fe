package hazelcastleader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/goleader/leader/backend"
)

// isSlot reports whether key is that of a slot. The engine escapes the sign in names.
func isSlot(key string) bool { return strings.IndexByte(key, '#') >= 0 }

// TryAcquireSlot makes one attempt at all n slots in two round trips: all of them and the clock at once, and the change of
// a free one, chosen at random.
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
	for range conflicts * n {
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
	slots  []entry
	harmed map[int]error // slots whose entry cannot be read
	at     instant
}

// group reads the slots 0 to n-1.
func (b *Backend) group(ctx context.Context, key string, n int) (*group, error) {
	keys := make([]string, n)
	numbers := make(map[any]int, n)
	for i := range keys {
		keys[i] = backend.SlotKey(key, i)
		numbers[keys[i]] = i
	}
	reading := b.ask(ctx)
	found, err := b.leases.getAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	g := &group{slots: make([]entry, n), harmed: map[int]error{}}
	if g.at, err = reading.result(ctx); err != nil {
		return nil, err
	}
	for _, f := range found {
		i, ok := numbers[f.Key]
		if !ok {
			continue
		}
		raw, err := textOf(keys[i], f.Value)
		if err == nil {
			g.slots[i], err = decode(keys[i], raw)
		}
		if err != nil {
			g.harmed[i] = err
		}
	}
	return g, nil
}

// takeSlot takes the slot that the token has, or a free one. The lease is nil if others were faster.
func (b *Backend) takeSlot(ctx context.Context, req backend.Request, g *group, a *attempt) (backend.Lease, int, error) {
	skew := b.options.MaxSkew
	own := noSlot
	for i, e := range g.slots {
		switch {
		case g.harmed[i] != nil:
		case e.Spent == req.Token:
			return nil, 0, backend.ErrLost
		case e.Token == req.Token && e.left(g.at, skew) > 0:
			own = i
		}
	}
	if own != noSlot {
		l, err := b.takeThis(ctx, req, g, a, own)
		return l, own, err
	}
	free, unsettled := false, a.slot
	for _, i := range g.order(unsettled) {
		if g.harmed[i] != nil || g.slots[i].left(g.at, skew) > 0 {
			if i == unsettled && g.harmed[i] == nil && g.slots[i].raw == a.before {
				return nil, i, errBusy // By another clock it was free, and the earlier attempt may still win it.
			}
			continue
		}
		free = true
		l, err := b.takeThis(ctx, req, g, a, i)
		if l != nil || err != nil || i == unsettled { // what changed it there may have been the earlier attempt
			return l, i, err
		}
	}
	if free {
		return nil, 0, nil
	}
	return nil, 0, g.full(skew)
}

// takeThis takes a slot, and notes it while the outcome is unknown.
func (b *Backend) takeThis(
	ctx context.Context, req backend.Request, g *group, a *attempt, slot int,
) (backend.Lease, error) {
	req.Key = backend.SlotKey(req.Key, slot)
	a.slot, a.before = slot, g.slots[slot].raw
	l, now, err := b.take(ctx, req, g.slots[slot], g.at)
	if err == nil {
		a.slot, g.slots[slot] = noSlot, now
	}
	return l, err
}

// order is a random one, but for a slot that comes first: an earlier attempt there, whose outcome is unknown, must not
// win it beside another one.
func (g *group) order(first int) []int {
	order := rand.Perm(len(g.slots))
	for i, slot := range order {
		if slot == first {
			order[0], order[i] = order[i], order[0]
		}
	}
	return order
}

// full is the error of a group without a free slot.
func (g *group) full(skew time.Duration) error {
	var first backend.Holder
	for _, e := range g.slots {
		left := e.left(g.at, skew)
		if left > 0 && (first.Free() || left < first.Remaining) {
			first = e.holder(left)
		}
	}
	if first.Free() {
		for _, err := range g.harmed {
			return err
		}
	}
	return &backend.HeldError{Holder: first}
}
