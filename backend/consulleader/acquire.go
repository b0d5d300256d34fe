package consulleader

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
)

// conflicts is how often a call that lost a race is repeated at once.
const conflicts = 3

// TryAcquire makes one attempt: one transaction if a session is at hand that was renewed within the last 200 ms. If not,
// it looks at the key first, and makes or renews a session only if the key is free; a key that is held then costs one
// read, and the servers no log entry. A losing attempt tells the holder.
func (b *Backend) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if err := b.check(ctx, req); err != nil {
		return nil, err
	}
	w := want{key: b.storeKey(req.Key), token: req.Token, ttl: req.TTL, session: b.pool.takeFresh(req.TTL)}
	if w.session == nil {
		found, err := b.read(ctx, w.key)
		if err != nil {
			return nil, err
		}
		if found != nil {
			b.delays.over(w.key)
		}
		if err := w.judge(found); err != nil {
			return nil, err
		}
	}
	defer b.giveBack(ctx, &w)
	if err := b.enter(ctx, &w, req); err != nil {
		return nil, err
	}
	defer b.attempts.leave(w.attempt)
	if l := b.attempts.leaseOf(w.attempt); l != nil && l.key == w.key {
		if err := l.Renew(ctx, req.TTL); !errors.Is(err, backend.ErrLost) {
			return orNothing(l, err)
		}
	}
	return orNothing(b.acquire(ctx, &w))
}

// check says why a request may not be sent.
func (b *Backend) check(ctx context.Context, req backend.Request) error {
	if err := checkTTL(req.TTL); err != nil {
		return err
	}
	if err := b.ready(ctx); err != nil {
		return err
	}
	if b.attempts.isSpent(req.Token) {
		return backend.ErrLost
	}
	return nil
}

// enter takes the turn of the token.
func (b *Backend) enter(ctx context.Context, w *want, req backend.Request) (err error) {
	if w.value, err = newRecord(req).encode(); err != nil {
		return err
	}
	if w.attempt, err = b.attempts.enter(ctx, req.Token); err != nil {
		return err
	}
	if b.attempts.isSpent(req.Token) {
		b.attempts.leave(w.attempt)
		return backend.ErrLost
	}
	return nil
}

// want is an attempt on one key.
type want struct {
	key     string
	token   string
	ttl     time.Duration
	value   []byte
	attempt *attempt
	session *session // that holds nothing; nil if one has to be found

	// replace is the version of what may be replaced: of an earlier attempt with the same token whose answer was lost, or
	// of a record without a session. 0 means that there must be nothing.
	replace uint64
}

// judge decides on what was found at the key: nil if it may be taken.
func (w *want) judge(found *api.KVPair) error {
	w.replace = 0
	if found == nil {
		return nil
	}
	r, err := decode(found)
	switch {
	case err != nil:
		return err
	case taken(found) && r.Token != w.token:
		return &backend.HeldError{Holder: r.holder(found)}
	}
	w.replace = found.ModifyIndex
	return nil
}

// acquire locks the key. Races that were lost to a change of the key, or to the end of an idle session, are repeated.
func (b *Backend) acquire(ctx context.Context, w *want) (*lease, error) {
	err := error(&backend.HeldError{})
	for range conflicts {
		if w.session == nil {
			if w.session, err = b.pool.take(ctx, w.ttl); err != nil {
				return nil, err
			}
		}
		var l *lease
		var again bool
		if l, again, err = b.lock(ctx, w); !again {
			return l, err
		}
	}
	return nil, err
}

// lock makes one transaction. again says that another one may have another outcome.
func (b *Backend) lock(ctx context.Context, w *want) (l *lease, again bool, err error) {
	results, err := b.transact(ctx, w.ops())
	if refused, ok := errors.AsType[*refusal](err); ok {
		return b.refused(ctx, w, refused, err)
	}
	if err != nil {
		b.poison(ctx, w)
		return nil, false, err
	}
	locked := results[len(results)-1]
	b.delays.over(w.key)
	l = newLease(ctx, b, w, locked)
	b.attempts.change(w.attempt, func() { w.attempt.lease = l })
	w.session = nil
	return l, false, nil
}

func (w *want) ops() api.KVTxnOps {
	first := &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: w.key}
	if w.replace != 0 {
		first = &api.KVTxnOp{Verb: api.KVDeleteCAS, Key: w.key, Index: w.replace}
	}
	return api.KVTxnOps{first, {Verb: api.KVLock, Key: w.key, Value: w.value, Session: w.session.id}}
}

// refused decides what follows from a transaction that the server did not do. The session holds nothing then.
func (b *Backend) refused(ctx context.Context, w *want, why *refusal, err error) (l *lease, again bool, _ error) {
	switch {
	case why.says(saysDead): // It ended while it was idle.
		w.session = nil
		return nil, true, err
	case why.says(saysDelayed):
		return nil, false, &backend.HeldError{Holder: b.delays.holder(w.key, b.lockDelay(w.ttl))}
	case why.says(saysExists), why.says(saysHeld), why.says(saysStale):
	default:
		return nil, false, err
	}
	found, err := b.read(ctx, w.key)
	if err == nil {
		err = w.judge(found)
	}
	if err != nil {
		return nil, false, err
	}
	return nil, true, &backend.HeldError{}
}

// giveBack returns the session of an attempt if that took nothing.
func (b *Backend) giveBack(ctx context.Context, w *want) {
	if w.session != nil {
		b.pool.put(ctx, w.session)
		w.session = nil
	}
}

// poison ends the session of an attempt whose outcome is unknown. Once that is done the attempt cannot succeed any more.
func (b *Backend) poison(ctx context.Context, w *want) {
	a, broken, key := w.attempt, w.session, w.key
	w.session = nil
	broken.taint()
	b.attempts.poison(a, broken, key)
	b.house.do(ctx, func(ctx context.Context) {
		if b.retire(ctx, broken, key) == nil {
			b.attempts.settle(a, broken)
		}
	})
}

// Abandon gives up an attempt: it frees the key if the token holds it, and ends the session of an attempt that may still
// arrive, which takes up to three requests.
func (b *Backend) Abandon(ctx context.Context, req backend.Request) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	a, err := b.attempts.enter(ctx, req.Token)
	if err != nil {
		return err
	}
	defer b.attempts.leave(a)
	b.attempts.spend(req.Token)
	key := b.storeKey(req.Key)
	if l := b.attempts.leaseOf(a); l != nil && l.key == key {
		err = l.Release(ctx, 0)
	} else {
		err = b.free(ctx, key, req.Token)
	}
	if err != nil {
		return err
	}
	return b.settle(ctx, a)
}

// settle ends the sessions of earlier attempts with a token, so that what is still on its way takes nothing.
func (b *Backend) settle(ctx context.Context, a *attempt) error {
	for _, p := range b.attempts.poisonedOf(a) {
		if err := b.retire(ctx, p.session, p.key); err != nil {
			return err
		}
		b.attempts.settle(a, p.session)
	}
	return nil
}

// free deletes a key that the token holds. What is not ours is left alone.
func (b *Backend) free(ctx context.Context, key, token string) error {
	for range conflicts {
		found, err := b.readProof(ctx, key)
		if err != nil || found == nil {
			return err
		}
		if r, err := decode(found); err != nil || r.Token != token {
			return nil //nolint:nilerr // what cannot be read is no lease of this token
		}
		if done, err := b.deleteIf(ctx, key, found.ModifyIndex); err != nil || done {
			return err
		}
	}
	return errContended
}

// Inspect reports the holder, in one round trip. When its lease ends is not known.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := b.ready(ctx); err != nil {
		return backend.Holder{}, err
	}
	pair, err := b.read(ctx, b.storeKey(key))
	if err != nil {
		return backend.Holder{}, err
	}
	return holderOf(pair)
}

// orNothing makes a nil lease a nil interface.
func orNothing(l *lease, err error) (backend.Lease, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}
