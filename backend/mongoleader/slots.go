package mongoleader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/goleader/leader/backend"
)

// isSlot reports whether key is that of a slot. The engine escapes the sign in names.
func isSlot(key string) bool { return strings.IndexByte(key, '#') >= 0 }

// TryAcquireSlot makes one attempt at all n slots: it reads them at once, and takes the free ones in random order until
// it has one. That is two round trips if nobody is faster, and one if all are taken.
//
// A unique index keeps a token from having two slots. The first call of a [Backend], and one that finds slots without a
// document, creates it where [Backend.Migrate] has not.
func (b *Backend) TryAcquireSlot(ctx context.Context, req backend.Request, n int) (backend.Lease, int, error) {
	if n < 1 {
		return nil, 0, backend.WithKind(fmt.Errorf("a group of %d slots", n), backend.Misconfigured)
	}
	if err := checkTTL(req.TTL); err != nil {
		return nil, 0, err
	}
	if err := b.ensureIndex(ctx); err != nil {
		return nil, 0, err
	}
	for range conflicts * n {
		slots, err := b.slots(ctx, req.Key, n)
		if err != nil {
			return nil, 0, err
		}
		l, i, err := b.takeOneOf(ctx, req, slots)
		if l != nil || err != nil {
			return l, i, err
		}
	}
	return nil, 0, &backend.HeldError{}
}

// slots reads the first n slots of a group, and creates those that are missing.
func (b *Backend) slots(ctx context.Context, group string, n int) ([]*document, error) {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = backend.SlotKey(group, i)
	}
	slots, missing, err := b.lookAt(ctx, keys)
	if err != nil || len(missing) == 0 {
		return slots, err
	}
	if err := b.create(ctx, missing...); err != nil {
		return nil, err
	}
	// Slots may be missing because the collection was dropped, and the index with it.
	b.indexed.Store(false)
	if err := b.ensureIndex(ctx); err != nil {
		return nil, err
	}
	slots, missing, err = b.lookAt(ctx, keys)
	if err == nil && len(missing) > 0 {
		err = errBusy
	}
	return slots, err
}

// lookAt reads documents at once, and says which there are not.
func (b *Backend) lookAt(ctx context.Context, keys []string) (list []*document, missing []string, err error) {
	raws, err := b.read(ctx, b.leases, shownLease, doc(fieldKey, doc("$in", keys)))
	if err != nil {
		return nil, nil, err
	}
	byKey := make(map[string]*document, len(raws))
	for _, raw := range raws {
		d, err := decode(raw)
		if err != nil {
			return nil, nil, err
		}
		byKey[d.key] = d
	}
	list = make([]*document, len(keys))
	for i, key := range keys {
		if list[i] = byKey[key]; list[i] == nil {
			missing = append(missing, key)
		}
	}
	return list, missing, nil
}

// takeOneOf makes a lease of the slot that the token has, or of a free one. The lease is nil if others were faster.
func (b *Backend) takeOneOf(ctx context.Context, req backend.Request, slots []*document) (backend.Lease, int, error) {
	own, first := -1, -1
	for i, d := range slots {
		switch {
		case d.spent == req.Token:
			return nil, 0, backend.ErrLost
		case d.token == req.Token:
			own = i
		case d.left() > 0 && (first < 0 || d.left() < slots[first].left()):
			first = i
		}
	}
	if own >= 0 {
		l, err := b.takeSlot(ctx, req, slots[own])
		return l, own, err
	}
	full := true
	for _, i := range rand.Perm(len(slots)) {
		if slots[i].left() > 0 {
			continue
		}
		full = false
		l, err := b.takeSlot(ctx, req, slots[i])
		if l != nil || err != nil {
			return l, i, err
		}
	}
	if full {
		return nil, 0, &backend.HeldError{Holder: slots[first].holder()}
	}
	return nil, 0, nil
}

// takeSlot makes a lease of a slot that is free, or that the token has.
func (b *Backend) takeSlot(ctx context.Context, req backend.Request, d *document) (backend.Lease, error) {
	req.Key = d.key
	if d.left() > 0 {
		return b.extend(ctx, req, d)
	}
	update, err := grant(req)
	if err != nil {
		return nil, err
	}
	return b.take(ctx, req, update)
}
