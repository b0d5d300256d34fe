package consulleader

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxSpent is how many spent tokens a backend remembers. Nothing in Consul outlives a lease that could tell one.
const maxSpent = 1024

// attempts is what a backend knows of the tokens with which it tries to acquire.
type attempts struct {
	mu    sync.Mutex
	known map[string]*attempt
	spent map[string]struct{}
	order [maxSpent]string // of the spent tokens, a ring
	next  int
}

// attempt is what has become of one token so far. Its fields are guarded by attempts.mu.
type attempt struct {
	token    string
	turn     chan struct{} // holds one value while no call with the token is under way
	calls    int           // under way, or waiting for their turn
	lease    *lease        // what the token holds
	poisoned []poisoned    // those of which a request may still arrive
}

// poisoned is the session of an attempt that may still take a key.
type poisoned struct {
	session *session
	key     string
	end     *time.Timer // forgets it when it has ended by itself
}

func newAttempts() *attempts {
	return &attempts{known: map[string]*attempt{}, spent: map[string]struct{}{}}
}

// enter waits until no other call with the token is under way.
func (s *attempts) enter(ctx context.Context, token string) (*attempt, error) {
	s.mu.Lock()
	a, ok := s.known[token]
	if !ok {
		a = &attempt{token: token, turn: make(chan struct{}, 1)}
		a.turn <- struct{}{}
		s.known[token] = a
	}
	a.calls++
	s.mu.Unlock()
	select {
	case <-a.turn:
		return a, nil
	case <-ctx.Done():
		s.change(a, func() { a.calls-- })
		return nil, ctx.Err()
	}
}

// leave gives the turn to the next call.
func (s *attempts) leave(a *attempt) {
	a.turn <- struct{}{}
	s.change(a, func() { a.calls-- })
}

// change changes an attempt, and forgets it if nothing is left to know.
func (s *attempts) change(a *attempt, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	if a.calls == 0 && a.lease == nil && len(a.poisoned) == 0 && s.known[a.token] == a {
		delete(s.known, a.token)
	}
}

// leaseOf returns what the token holds, nil if that is nothing.
func (s *attempts) leaseOf(a *attempt) *lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.lease
}

// poison notes a session of which a request for a key may still arrive, for as long as it may live.
func (s *attempts) poison(a *attempt, broken *session, key string) {
	s.change(a, func() {
		end := time.AfterFunc(2*broken.server()+broken.delay, func() { s.settle(a, broken) })
		a.poisoned = append(a.poisoned, poisoned{broken, key, end})
	})
}

// settle notes that a poisoned session is gone.
func (s *attempts) settle(a *attempt, gone *session) {
	s.change(a, func() {
		i := slices.IndexFunc(a.poisoned, func(p poisoned) bool { return p.session == gone })
		if i >= 0 {
			a.poisoned[i].end.Stop()
			a.poisoned = slices.Delete(a.poisoned, i, i+1)
		}
	})
}

func (s *attempts) poisonedOf(a *attempt) []poisoned {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(a.poisoned)
}

// spend notes that a token opens no further term.
func (s *attempts) spend(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.spent[token]; ok {
		return
	}
	delete(s.spent, s.order[s.next])
	s.order[s.next] = token
	s.next = (s.next + 1) % maxSpent
	s.spent[token] = struct{}{}
}

func (s *attempts) isSpent(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.spent[token]
	return ok
}
