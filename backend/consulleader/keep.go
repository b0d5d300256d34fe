package consulleader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
)

// keep passes the key to a session whose TTL is that of keep, which is never renewed, and deletes it when keep has
// passed. What happens to this process then only makes the key free later.
func (l *lease) keep(ctx context.Context, keep time.Duration) error {
	b := l.backend
	value, err := keptValue(l.record, max(keep, minTTL))
	if err != nil {
		return err
	}
	next, err := b.pool.create(ctx, max(keep, minTTL), 0)
	if errors.Is(err, errClosed) {
		next, err = b.createSession(ctx, max(keep, minTTL), 0)
	}
	if err != nil {
		return err
	}
	for range conflicts {
		end := time.Now().Add(keep)
		passed, err := l.passTo(ctx, next, value)
		if passed {
			l.endAt(ctx, end)
			return nil
		}
		refused, ok := errors.AsType[*refusal](err)
		if !ok {
			return err // If the key has passed after all, the end of the session frees it.
		}
		if refused.kind() == backend.Denied {
			b.retireAside(ctx, next, "")
			return err
		}
		gone, lookErr := l.refresh(ctx)
		if gone || lookErr != nil {
			b.retireAside(ctx, next, "")
		}
		if gone {
			l.finish(ctx)
			return nil
		}
		if lookErr != nil {
			return lookErr
		}
	}
	b.retireAside(ctx, next, "")
	return errContended
}

// passTo makes next the session that holds the key. A refusal says that the key has changed.
func (l *lease) passTo(ctx context.Context, next *session, value []byte) (bool, error) {
	l.mu.Lock()
	old, version := l.session, l.index
	l.mu.Unlock()
	results, err := l.backend.transact(ctx, api.KVTxnOps{
		{Verb: api.KVCheckIndex, Key: l.key, Index: version},
		{Verb: api.KVUnlock, Key: l.key, Value: value, Session: old.id},
		{Verb: api.KVLock, Key: l.key, Value: value, Session: next.id},
	})
	if _, refused := errors.AsType[*refusal](err); err != nil && !refused {
		old.taint()
		l.mu.Lock()
		l.passing = next
		l.mu.Unlock()
	}
	if err != nil {
		return false, err
	}
	l.passed(ctx, next, results[len(results)-1].ModifyIndex)
	return true, nil
}

// passed notes that next holds the key, and gives the session back that did.
func (l *lease) passed(ctx context.Context, next *session, index uint64) {
	l.mu.Lock()
	old := l.session
	l.session, l.passing, l.index, l.state = next, nil, index, kept
	busy, watch := l.renewing > 0, l.watch
	l.mu.Unlock()
	if watch != nil {
		watch.end()
	}
	if busy {
		l.backend.retireAside(ctx, old, "")
	} else {
		l.backend.pool.put(ctx, old)
	}
}

// passedTo returns the session that holds the key since a call whose answer was lost, nil if none does.
func (l *lease) passedTo(pair *api.KVPair) *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	if next := l.passing; next != nil && pair.CreateIndex == l.fence && pair.Session == next.id {
		return next
	}
	return nil
}

// endAt deletes the key when keep has passed.
func (l *lease) endAt(ctx context.Context, end time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending != nil {
		l.ending.Stop()
	}
	b := l.backend
	l.ending = time.AfterFunc(time.Until(end), func() {
		b.house.do(ctx, func(ctx context.Context) {
			_ = l.delete(ctx) // The session ends by itself.
		})
	})
}

// keptValue makes the record of a lease that of a kept key.
func keptValue(value []byte, ttl time.Duration) ([]byte, error) {
	var r record
	if err := json.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("decode the own record: %w", err)
	}
	r.Token, r.Kept, r.TTL = "", true, ttl.Microseconds()
	return r.encode()
}
