package consulleader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
)

var (
	errContended = backend.WithKind(
		errors.New("the key changed each time that it was to be written"), backend.Unavailable)

	// errUnknownSession is no loss: a server that has just begun to lead, and has not read all of its log yet, does not
	// know the session of a lease that goes on.
	errUnknownSession = backend.WithKind(
		errors.New("the server does not know the session, which still holds the key"), backend.Unavailable)
)

// lease is a key that is locked by a session of its own.
type lease struct {
	backend *Backend
	attempt *attempt
	key     string
	fence   uint64 // the key's CreateIndex
	record  []byte // its value

	mu       sync.Mutex
	session  *session // that holds the key
	passing  *session // that may hold it instead; nil unless an answer was lost
	index    uint64   // the key's ModifyIndex, when last seen
	state    state
	renewing int // renewals under way
	ending   *time.Timer
	watch    *lossWatch // nil if nobody has asked for the loss

	// subscribe follows the key, with the values of the context of the acquisition.
	subscribe func(s *subscriber) (leave func(), err error)
}

type state int

const (
	held state = iota
	kept
	over
)

var _ backend.LossNotifier = (*lease)(nil)

func newLease(ctx context.Context, b *Backend, w *want, locked *api.KVPair) *lease {
	return &lease{
		backend: b, attempt: w.attempt, key: w.key, record: w.value, session: w.session,
		fence: locked.CreateIndex, index: locked.ModifyIndex,
		subscribe: func(s *subscriber) (func(), error) { return b.feeds.subscribe(ctx, w.key, s) },
	}
}

// Fence returns the index under which the key was created.
func (l *lease) Fence() uint64 { return l.fence }

// Renew renews the session, whose TTL is that of the acquisition whatever ttl is, and proves that the key is still held
// by it: two round trips, which cost the servers no log entry.
func (l *lease) Renew(ctx context.Context, _ time.Duration) error {
	if err := l.backend.ready(ctx); err != nil {
		return err
	}
	s, ok := l.beginRenewal()
	if !ok {
		return backend.ErrLost
	}
	defer l.endRenewal()
	renewed := l.backend.renewSession(ctx, s)
	if renewed != nil && !errors.Is(renewed, backend.ErrLost) {
		return renewed
	}
	pair, err := l.backend.readProof(ctx, l.key)
	if err != nil {
		return err
	}
	if err := l.confirm(ctx, s, pair); err != nil {
		return err
	}
	if renewed != nil {
		return errUnknownSession
	}
	return nil
}

func (l *lease) beginRenewal() (*session, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != held {
		return nil, false
	}
	l.renewing++
	return l.session, true
}

func (l *lease) endRenewal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewing--
}

// confirm judges what a renewal of the session found at the key.
func (l *lease) confirm(ctx context.Context, s *session, pair *api.KVPair) error {
	if pair != nil {
		if _, err := decode(pair); err != nil {
			return err
		}
	}
	l.mu.Lock()
	mine := l.state == held && l.owns(pair)
	if mine {
		l.index = max(l.index, pair.ModifyIndex)
	}
	watch := l.watch
	l.mu.Unlock()
	if !mine {
		l.lose(ctx, s)
		return backend.ErrLost
	}
	if watch != nil {
		watch.begin()
	}
	return nil
}

// owns reports whether the lease is what a pair shows. The caller has l.mu.
func (l *lease) owns(pair *api.KVPair) bool {
	return pair != nil && pair.CreateIndex == l.fence && pair.Session == l.session.id
}

// Release deletes the key if it is still that of this lease, in one round trip. With keep the key passes to a session of
// its own in the same step, which ends it if this process does not.
func (l *lease) Release(ctx context.Context, keep time.Duration) error {
	b := l.backend
	if err := b.ready(ctx); err != nil {
		return err
	}
	if keep > maxTTL {
		return backend.WithKind(fmt.Errorf("keep of %v is over the maximum of %v", keep, maxTTL), backend.Misconfigured)
	}
	b.attempts.spend(l.attempt.token)
	if l.ended() {
		return nil
	}
	if keep > 0 {
		return l.keep(ctx, keep)
	}
	err := l.delete(ctx)
	if err != nil && backend.KindOf(err) != backend.Misconfigured { // what cannot be read is not ours to end
		l.mu.Lock()
		s := l.session
		l.mu.Unlock()
		b.retireAside(ctx, s, l.key)
	}
	return err
}

// delete frees the key.
func (l *lease) delete(ctx context.Context) error {
	for range conflicts {
		done, err := l.backend.deleteIf(ctx, l.key, l.version())
		if err != nil {
			return err
		}
		if !done {
			if done, err = l.refresh(ctx); err != nil {
				return err
			}
		}
		if done {
			l.finish(ctx)
			return nil
		}
	}
	return errContended
}

// refresh looks why the key has another version, and reports whether it is no longer that of this lease.
func (l *lease) refresh(ctx context.Context) (gone bool, err error) {
	pair, err := l.backend.readProof(ctx, l.key)
	if err != nil || pair == nil {
		return err == nil, err
	}
	if _, err := decode(pair); err != nil {
		return false, err
	}
	if next := l.passedTo(pair); next != nil {
		l.passed(ctx, next, pair.ModifyIndex)
		return false, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.owns(pair) {
		return true, nil
	}
	l.index = pair.ModifyIndex
	return false, nil
}

func (l *lease) version() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index
}

func (l *lease) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == over
}

// finish ends a lease that the store no longer has. Its session is free for the next, unless a request of it is
// unanswered.
func (l *lease) finish(ctx context.Context) {
	l.mu.Lock()
	s, busy, ok := l.session, l.renewing > 0, l.state != over
	l.state = over
	l.mu.Unlock()
	if !ok {
		return
	}
	l.end()
	if busy {
		l.backend.retireAside(ctx, s, "")
		return
	}
	l.backend.pool.put(ctx, s)
}

// lose ends a lease that the store has ended, as long as that session holds it, and the session, if that still lives.
func (l *lease) lose(ctx context.Context, s *session) {
	l.mu.Lock()
	ok := l.state == held && l.session == s
	if ok {
		l.state = over
	}
	watch := l.watch
	l.mu.Unlock()
	if !ok {
		return
	}
	l.backend.retireAside(ctx, s, "")
	l.end()
	if watch != nil {
		watch.close()
	}
}

// end does what follows from the end.
func (l *lease) end() {
	l.mu.Lock()
	if l.ending != nil {
		l.ending.Stop()
	}
	watch := l.watch
	l.mu.Unlock()
	if watch != nil {
		watch.end()
	}
	l.backend.attempts.change(l.attempt, func() {
		if l.attempt.lease == l {
			l.attempt.lease = nil
		}
	})
}

// deleteIf deletes a key of that version. It reports true also if there is none.
func (b *Backend) deleteIf(ctx context.Context, key string, version uint64) (bool, error) {
	done, _, err := b.kv.DeleteCAS(&api.KVPair{Key: key, ModifyIndex: version}, writeOptions(ctx))
	return done, classify(ctx, err)
}
