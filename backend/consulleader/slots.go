package consulleader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
)

// TryAcquireSlot reads all slots in one request, and tries those that are free, beginning at a random one, until it gets
// one. A full group costs no log entry. When a lease ends is not known; the holder that it tells of is one with the
// shortest TTL.
func (b *Backend) TryAcquireSlot(ctx context.Context, req backend.Request, n int) (backend.Lease, int, error) {
	if n < 1 {
		return nil, 0, backend.WithKind(fmt.Errorf("a group of %d slots", n), backend.Misconfigured)
	}
	if err := b.check(ctx, req); err != nil {
		return nil, 0, err
	}
	w := want{token: req.Token, ttl: req.TTL}
	if err := b.enter(ctx, &w, req); err != nil {
		return nil, 0, err
	}
	defer b.attempts.leave(w.attempt)
	// An earlier attempt may have a slot, or still get one, while this one finds another.
	if err := b.settle(ctx, w.attempt); err != nil {
		return nil, 0, err
	}
	for range conflicts * n {
		g, err := b.readGroup(ctx, req.Key, n)
		if err != nil {
			return nil, 0, err
		}
		l, slot, err := b.acquireSlot(ctx, g, &w)
		if l != nil || err != nil {
			return l, slot, err
		}
	}
	return nil, 0, &backend.HeldError{}
}

// group is what was found of the slots of a group, by their number.
type group struct {
	keys  []string
	pairs []*api.KVPair
}

func (b *Backend) readGroup(ctx context.Context, name string, n int) (*group, error) {
	g := &group{keys: make([]string, n), pairs: make([]*api.KVPair, n)}
	for i := range n {
		g.keys[i] = b.storeKey(backend.SlotKey(name, i))
	}
	pairs, _, err := b.kv.List(b.storeKey(name+"#"), queryOptions(ctx))
	if err != nil {
		return nil, classify(ctx, err)
	}
	for _, pair := range pairs {
		if i := g.slotOf(pair.Key); i >= 0 {
			g.pairs[i] = pair
		}
	}
	return g, nil
}

// slotOf returns the slot with a key in Consul, -1 if it is none of these.
func (g *group) slotOf(key string) int {
	var slot int
	i := len(key) - 1
	for i >= 0 && key[i] >= '0' && key[i] <= '9' {
		i--
	}
	if _, err := fmt.Sscan(key[i+1:], &slot); err != nil || slot >= len(g.keys) || g.keys[slot] != key {
		return -1
	}
	return slot
}

// order is in which the slots are tried: that which the token has first, for there is an answer that was lost.
func (g *group) order(token string) []int {
	order := rand.Perm(len(g.keys))
	for i, slot := range order {
		if pair := g.pairs[slot]; taken(pair) {
			if r, err := decode(pair); err == nil && r.Token == token {
				order[0], order[i] = order[i], order[0]
			}
		}
	}
	return order
}

// first is the holder whose lease may end first, the zero Holder if no slot was taken.
func (g *group) first() backend.Holder {
	var first backend.Holder
	var ttl int64
	for _, pair := range g.pairs {
		if !taken(pair) {
			continue
		}
		if r, err := decode(pair); err == nil && (first.Free() || r.TTL < ttl) {
			first, ttl = r.holder(pair), r.TTL
		}
	}
	return first
}

// acquireSlot renews the lease that the token has, or tries the slots. w lacks the key. The lease is nil if others took a
// slot that had been free: what was seen of the others is as old.
func (b *Backend) acquireSlot(ctx context.Context, g *group, w *want) (backend.Lease, int, error) {
	defer b.giveBack(ctx, w)
	if l := b.attempts.leaseOf(w.attempt); l != nil {
		if slot := g.slotOf(l.key); slot >= 0 {
			if err := l.Renew(ctx, w.ttl); !errors.Is(err, backend.ErrLost) {
				l, err := orNothing(l, err)
				return l, slot, err
			}
		}
	}
	var unreadable error
	outrun := false
	for _, slot := range g.order(w.token) {
		w.key = g.keys[slot]
		err := w.judge(g.pairs[slot])
		var l *lease
		tried := err == nil
		if tried {
			l, err = b.acquire(ctx, w)
		}
		switch {
		case err == nil:
			return l, slot, nil
		case errors.Is(err, backend.ErrHeld):
			outrun = outrun || tried && !isDelay(err)
		case backend.KindOf(err) == backend.Misconfigured:
			unreadable = err
		default:
			return nil, 0, err
		}
	}
	first := g.first()
	switch {
	case outrun:
		return nil, 0, nil
	case unreadable != nil && first.Free():
		return nil, 0, unreadable
	}
	return nil, 0, &backend.HeldError{Holder: first}
}
