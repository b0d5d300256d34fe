package zkleader

import (
	"context"
	"fmt"
	"hash/crc32"
	"maps"
	"sync"

	"github.com/goleader/leader/backend"
)

// looks is how many reads are under way at one time.
const looks = 32

// TryAcquireSlot looks at all slots at once and acquires a free one.
func (b *Backend) TryAcquireSlot(ctx context.Context, req backend.Request, n int) (backend.Lease, int, error) {
	if n < 1 {
		return nil, 0, backend.WithKind(fmt.Errorf("a group of %d slots", n), backend.Misconfigured)
	}
	if err := b.checkTTL(req.TTL); err != nil {
		return nil, 0, err
	}
	done, err := b.attempts.enter(ctx, req.Token)
	if err != nil {
		return nil, 0, classify(ctx, b.path(req.Key), err)
	}
	defer done()
	keys := make([]string, n)
	for i := range keys {
		keys[i] = backend.SlotKey(req.Key, i)
	}
	for range conflicts * n { // While some are free, those who want the same one keep none from another.
		seen, err := b.lookAtAll(ctx, keys)
		if err != nil {
			return nil, 0, err
		}
		slot, err := b.choose(seen, req.Token)
		if err != nil {
			return nil, 0, err
		}
		one := req
		one.Key = keys[slot]
		l, err := b.attempt(ctx, one, seen[slot])
		if !isConflict(err) {
			got, err := leaseOr(l, err)
			return got, slot, err
		}
	}
	return nil, 0, &backend.HeldError{} // Others were faster each time.
}

// attempts are those under way at groups. One of a token that begins before another has ended might see other slots
// free, and the token would get two.
type attempts struct {
	mu      sync.Mutex
	byToken map[string]chan struct{} // closed when it has ended
}

// enter waits until no other attempt of the token is under way; done is to be called at the end of this one.
func (a *attempts) enter(ctx context.Context, token string) (done func(), err error) {
	for {
		a.mu.Lock()
		other, busy := a.byToken[token]
		if !busy {
			break
		}
		a.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer a.mu.Unlock()
	if a.byToken == nil {
		a.byToken = make(map[string]chan struct{})
	}
	own := make(chan struct{})
	a.byToken[token] = own
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.byToken, token)
		close(own)
	}, nil
}

// choose returns the slot that the token has, else a free one. Each token begins somewhere else, so that nodes seldom
// want the same slot, but repeats of one attempt do.
func (b *Backend) choose(seen []*sight, token string) (int, error) {
	var soonest backend.Holder
	free, begin := -1, int(crc32.ChecksumIEEE([]byte(token))%uint32(len(seen))) //nolint:gosec // a number of slots
	for n := range seen {
		i := (begin + n) % len(seen)
		g := seen[i]
		if g.Spent == token {
			return 0, backend.ErrLost
		}
		if g.Token == token {
			return i, nil
		}
		h := g.holder(&b.clock)
		switch {
		case h.Free() && free < 0:
			free = i
		case h.Free():
		case soonest.Free() || h.Remaining < soonest.Remaining:
			soonest = h
		}
	}
	if free < 0 {
		soonest.Metadata = maps.Clone(soonest.Metadata)
		return 0, &backend.HeldError{Holder: soonest}
	}
	return free, nil
}

// lookAtAll looks at keys at the same time, and returns the sights in their order, or the first error.
func (b *Backend) lookAtAll(ctx context.Context, keys []string) ([]*sight, error) {
	seen, errs := make([]*sight, len(keys)), make([]error, len(keys))
	atOnce(len(keys), func(i int) { seen[i], errs[i] = b.look(ctx, b.path(keys[i])) })
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// atOnce calls f for 0 to n-1, some at a time, and returns when all have returned.
func atOnce(n int, f func(i int)) {
	var running sync.WaitGroup
	defer running.Wait()
	turns := make(chan struct{}, looks)
	for i := range n {
		turns <- struct{}{}
		running.Go(func() {
			defer func() { <-turns }()
			f(i)
		})
	}
}
