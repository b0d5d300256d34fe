package sqlleader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/goleader/leader/backend"
)

// TryAcquireSlot implements [backend.SlotAcquirer]: it reads the rows of the slots and writes only if one of them looks
// free or is held by the same token. ctx governs the waits for a connection and for locks.
func (b *Backend) TryAcquireSlot(ctx context.Context, req backend.Request, n int) (backend.Lease, int, error) {
	ttl, err := duration(req.TTL)
	if err != nil {
		return nil, 0, err
	}
	if n < 1 {
		return nil, 0, backend.WithKind(fmt.Errorf("a group of %d slots", n), backend.Misconfigured)
	}
	l, i, err := b.claimSlot(ctx, req, ttl, n)
	if err == nil && l == nil {
		l, i, err = b.claimSlotAgain(ctx, req, ttl, n)
	}
	if err != nil {
		return nil, 0, err
	}
	return l, i, nil
}

// claimSlotAgain is for those who got into each other's way and would do so again while other slots are free: they take
// turns.
func (b *Backend) claimSlotAgain(ctx context.Context, req backend.Request, ttl int64, n int) (*lease, int, error) {
	if err := b.retrier.enter(ctx); err != nil {
		return nil, 0, b.fault(ctx, err)
	}
	defer b.retrier.leave()
	for range conflicts * n {
		l, i, err := b.claimSlot(ctx, req, ttl, n)
		if err != nil || l != nil {
			return l, i, err
		}
	}
	return nil, 0, &backend.HeldError{}
}

// claimSlot reads the slots once and makes one of them a lease of req. The lease is nil if another was faster.
func (b *Backend) claimSlot(ctx context.Context, req backend.Request, ttl int64, n int) (*lease, int, error) {
	group := startingWith(strings.TrimSuffix(backend.SlotKey(req.Key, 0), "0"))
	slots, err := b.slots(ctx, req.Key, n, group)
	if err != nil {
		return nil, 0, err
	}
	i, err := choose(slots, req.Token)
	if err != nil {
		return nil, 0, err
	}
	if i < 0 {
		return nil, 0, b.lose(ctx, slots)
	}
	l, err := b.claim(ctx, req, ttl, &slots[i], group)
	return l, i, err
}

// slots reads the first n slots of key.
func (b *Backend) slots(ctx context.Context, key string, n int, group span) ([]slot, error) {
	rows, err := b.rows(ctx, group)
	if err != nil {
		return nil, err
	}
	byKey := make(map[string]record, len(rows))
	for _, r := range rows {
		byKey[r.key] = r
	}
	slots := make([]slot, n)
	for i := range slots {
		key := backend.SlotKey(key, i)
		r, ok := byKey[key]
		if !ok {
			slots[i].key = key
			continue
		}
		if err := r.check(); err != nil {
			return nil, err
		}
		slots[i] = slot{r, b.left(&r)}
	}
	return slots, nil
}

// choose returns the slot whose row has the token, else one of the free ones, else -1. A token that has expired in a slot
// gets no other, so that it is never in two.
func choose(slots []slot, token string) (int, error) {
	own, free, seen := -1, -1, 0
	for i := range slots {
		s := &slots[i]
		switch {
		case s.spent == token:
			return -1, backend.ErrLost
		case s.token == token:
			own = i
		case s.left <= 0:
			if seen++; rand.IntN(seen) == 0 {
				free = i
			}
		}
	}
	if own >= 0 {
		return own, nil
	}
	return free, nil
}
