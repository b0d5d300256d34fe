package local

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/goleader/leader/backend"
)

// TryAcquireSlot implements [backend.SlotAcquirer] with the lowest free slot. ctx is only looked at before the attempt.
func (b *Backend) TryAcquireSlot(ctx context.Context, req backend.Request, n int) (backend.Lease, int, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	if n < 1 {
		return nil, 0, backend.WithKind(fmt.Errorf("a group of %d slots", n), backend.Misconfigured)
	}
	if err := checkTTL(req.TTL); err != nil {
		return nil, 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	slot, err := b.chooseSlot(req, n, now)
	if err != nil {
		return nil, 0, err
	}
	req.Key = backend.SlotKey(req.Key, slot)
	l, err := b.acquire(req, now)
	return l, slot, err
}

// chooseSlot returns the slot that the token holds, or else a free one. b.mu is held.
func (b *Backend) chooseSlot(req backend.Request, n int, now time.Time) (int, error) {
	own, free := -1, -1
	var soonest *record
	key := append([]byte(req.Key), '#')
	for slot := range n {
		r := b.records[string(strconv.AppendInt(key, int64(slot), 10))]
		switch {
		case r == nil:
			free = first(free, slot)
		case r.spent == req.Token:
			return 0, backend.ErrLost
		case r.free(now):
			free = first(free, slot)
		case r.token == req.Token:
			own = slot
		case soonest == nil || r.until.Before(soonest.until):
			soonest = r
		}
	}
	switch {
	case own >= 0:
		return own, nil
	case free >= 0:
		return free, nil
	}
	return 0, &backend.HeldError{Holder: soonest.holder(now)}
}

// first returns the slot that was found first; -1 is none.
func first(found, slot int) int {
	if found >= 0 {
		return found
	}
	return slot
}
