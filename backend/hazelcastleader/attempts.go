package hazelcastleader

import (
	"context"
	"sync"
	"time"
)

const (
	noSlot = -1
	// An attempt that nobody abandoned is forgotten after this time, when nothing of it can arrive any more.
	attemptFor = 10 * time.Minute
)

// attempts are those on groups that have begun. Two with one token must not win two slots, so they go one by one, and
// one after an unknown outcome begins where that was.
type attempts struct {
	mu   sync.Mutex
	open map[string]*attempt // by token
}

// attempt is all attempts with one token.
type attempt struct {
	busy  chan struct{} // holds a value while one runs
	users int
	used  time.Time

	// Used by the one that runs.
	slot   int    // where the outcome of the last one is unknown, else noSlot
	before string // the value that it wanted to replace there
}

// enter waits until no other attempt with the token runs. The caller has to exit unless there is an error.
func (s *attempts) enter(ctx context.Context, token string) (*attempt, error) {
	a := s.join(token)
	select {
	case a.busy <- struct{}{}:
		return a, nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.leave(token, a)
		return nil, ctx.Err()
	}
}

func (s *attempts) join(token string) *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[string]*attempt{}
	}
	a := s.open[token]
	if a == nil {
		s.forget()
		a = &attempt{busy: make(chan struct{}, 1), slot: noSlot}
		s.open[token] = a
	}
	a.users++
	return a
}

// exit lets the next one run.
func (s *attempts) exit(token string, a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.used = time.Now()
	<-a.busy
	s.leave(token, a)
}

// leave forgets attempts that are settled. s.mu is held.
func (s *attempts) leave(token string, a *attempt) {
	if a.users--; a.users == 0 && a.slot == noSlot {
		delete(s.open, token)
	}
}

// settle forgets the attempts with a token that is never used again.
func (s *attempts) settle(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.open[token]; a != nil && a.users == 0 {
		delete(s.open, token)
	}
}

// forget drops old attempts. s.mu is held.
func (s *attempts) forget() {
	for token, a := range s.open {
		if a.users == 0 && time.Since(a.used) > attemptFor {
			delete(s.open, token)
		}
	}
}
