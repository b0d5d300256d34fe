package etcdleader

import (
	"context"
	"sync"
	"time"
)

// sweepAt is from how many attempts on those are looked for whose leases have ended unnoticed.
const sweepAt = 1024

// attempts joins what is done with one token. Attempts with the same token take turns, and the later ones share the term
// that an earlier one has opened.
type attempts struct {
	mu    sync.Mutex
	known map[attemptKey]*attempt
	limit int
}

// attemptKey is a key of the engine, or that of a group, and a token.
type attemptKey struct{ key, token string }

type attempt struct {
	attemptKey

	turn  chan struct{} // has room for the one whose turn it is
	users int           // guarded by the mutex of attempts
	term  *term         // likewise; nil if none is open
}

func newAttempts() *attempts {
	return &attempts{known: map[attemptKey]*attempt{}, limit: sweepAt}
}

// enter waits for its turn. The caller leaves unless there is an error.
func (as *attempts) enter(ctx context.Context, key, token string) (*attempt, error) {
	a := as.join(attemptKey{key, token})
	select {
	case a.turn <- struct{}{}:
		return a, nil
	case <-ctx.Done():
		as.part(a)
		return nil, ctx.Err()
	}
}

func (as *attempts) leave(a *attempt) {
	<-a.turn
	as.part(a)
}

func (as *attempts) join(key attemptKey) *attempt {
	as.mu.Lock()
	defer as.mu.Unlock()
	a := as.known[key]
	if a == nil {
		as.sweep()
		a = &attempt{attemptKey: key, turn: make(chan struct{}, 1)}
		as.known[key] = a
	}
	a.users++
	return a
}

func (as *attempts) part(a *attempt) {
	as.mu.Lock()
	defer as.mu.Unlock()
	a.users--
	as.drop(a)
}

// drop forgets an attempt that nobody needs. as.mu is held.
func (as *attempts) drop(a *attempt) {
	if a.users == 0 && a.term == nil && as.known[a.attemptKey] == a {
		delete(as.known, a.attemptKey)
	}
}

// open notes that an attempt has opened a term.
func (as *attempts) open(a *attempt, t *term) {
	as.mu.Lock()
	defer as.mu.Unlock()
	a.term = t
}

// close notes that a term is over.
func (as *attempts) close(t *term) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if a := t.attempt; a.term == t {
		a.term = nil
		as.drop(a)
	}
}

// termOf returns the open term of an attempt, nil if there is none.
func (as *attempts) termOf(a *attempt) *term {
	as.mu.Lock()
	defer as.mu.Unlock()
	return a.term
}

// find returns the open term of a token, nil if there is none.
func (as *attempts) find(key, token string) *term {
	as.mu.Lock()
	defer as.mu.Unlock()
	if a := as.known[attemptKey{key, token}]; a != nil {
		return a.term
	}
	return nil
}

// sweep forgets terms that nobody has ended and that cannot live any more. as.mu is held.
func (as *attempts) sweep() {
	if len(as.known) < as.limit {
		return
	}
	now := time.Now()
	for _, a := range as.known {
		if a.term != nil && a.term.expired(now) {
			a.term = nil
			as.drop(a)
		}
	}
	as.limit = max(sweepAt, 2*len(as.known))
}
