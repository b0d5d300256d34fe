package leader

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/goleader/leader/backend"
)

// slotKey is the key of a slot, or of the name itself outside groups.
func (e *engine) slotKey(key string, slot int) string {
	if e.config.slots == 0 {
		return key
	}
	return backend.SlotKey(key, slot)
}

// takeSlot makes one attempt at the slots of a group. at is the slot that was tried last.
func (e *engine) takeSlot(ctx context.Context, req backend.Request, at *atomic.Int32) (taken, error) {
	if e.slots != nil {
		l, slot, err := e.slots.TryAcquireSlot(ctx, req, e.config.slots)
		return taken{l, slot}, err
	}
	return e.takeOneByOne(ctx, req, at)
}

// takeOneByOne tries the slots one after another, for drivers that cannot try them together. It begins at the one that
// was tried last, so that a repeated attempt meets what it may have taken before any other.
func (e *engine) takeOneByOne(ctx context.Context, req backend.Request, at *atomic.Int32) (taken, error) {
	group, n := req.Key, e.config.slots
	first := int(at.Load())
	var ends backend.Holder
	for i := range n {
		slot := (first + i) % n
		at.Store(int32(slot)) //nolint:gosec // a number of slots
		req.Key = backend.SlotKey(group, slot)
		l, err := e.driver.TryAcquire(ctx, req)
		if !errors.Is(err, backend.ErrHeld) {
			return taken{l, slot}, err
		}
		if held, ok := errors.AsType[*backend.HeldError](err); ok && sooner(held.Holder, ends) {
			ends = held.Holder
		}
	}
	return taken{}, &backend.HeldError{Holder: ends}
}

// settleOthers frees what earlier attempts of unknown outcome may have taken, or may take yet, beside the slot of h.
func (e *engine) settleOthers(ctx context.Context, h *hold) {
	req := h.request()
	for slot := range e.config.slots {
		if slot != h.slot {
			other := req
			other.Key = backend.SlotKey(req.Key, slot)
			e.cleanKey(ctx, other)
		}
	}
}

// sooner reports whether the lease of a is known to end before that of b.
func sooner(a, b backend.Holder) bool {
	return a.Remaining > 0 && (b.Remaining == 0 || a.Remaining < b.Remaining)
}

// awaitSlots waits for the release of any slot, for at most d.
func (s *seeker) awaitSlots(ctx context.Context, p *pauses, d time.Duration) {
	s.hinted(ctx, p, d, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		watched := rand.Perm(s.e.config.slots)
		watched = watched[:min(len(watched), atOnce)]
		first := make(chan error, len(watched))
		for _, slot := range watched {
			go func() { first <- s.awaitSlot(ctx, backend.SlotKey(s.hold.call.key, slot)) }()
		}
		return <-first
	})
}

// awaitSlot returns when a slot is free or released.
func (s *seeker) awaitSlot(ctx context.Context, key string) error {
	h, err := s.e.inspect(ctx, key)
	if err != nil || h.Free() {
		return err
	}
	return s.e.awaitRelease(ctx, key, h.Seen)
}
