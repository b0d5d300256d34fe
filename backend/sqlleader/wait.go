package sqlleader

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"
)

// glance is how often the poller looks whether anybody has committed.
const glance = 20 * time.Millisecond

// AwaitRelease implements [backend.Waiter]. It returns nil once the key is free or its row names another term than seen,
// and an error when ctx ends, the Backend is closed, or the database cannot be read. With a dialect that has no sign of
// commits it returns [errors.ErrUnsupported].
func (b *Backend) AwaitRelease(ctx context.Context, key, seen string) error {
	if b.dialect.Sign == "" {
		return errors.ErrUnsupported
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &waiter{key: key, seen: seen, result: make(chan error, 1)}
	if err := b.awaiting.add(ctx, w, b.poll); err != nil {
		return err
	}
	defer b.awaiting.remove(w)
	select {
	case err := <-w.result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waiter is one call of AwaitRelease.
type waiter struct {
	key, seen string
	looked    bool       // its row has been compared once
	result    chan error // has room for the one answer
}

// waiters are served by one poller, which lives while there are any. The zero value is ready.
type waiters struct {
	mu      sync.Mutex
	all     map[*waiter]struct{}
	fresh   bool // there are some whose rows have never been compared
	closed  bool
	cancel  context.CancelFunc // ends the poller; nil while there is none
	pollers sync.WaitGroup     // one that found nobody may still be closing beside its successor
}

// add registers w and starts poll if it is not running. poll keeps the values of the first waiter's ctx.
func (ws *waiters) add(ctx context.Context, w *waiter, poll func(context.Context)) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return errClosed
	}
	if ws.all == nil {
		ws.all = make(map[*waiter]struct{})
	}
	ws.all[w] = struct{}{}
	ws.fresh = true
	if ws.cancel != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ws.cancel = cancel
	ws.pollers.Go(func() {
		defer cancel()
		poll(ctx)
	})
	return nil
}

func (ws *waiters) remove(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.all, w)
}

// due returns the waiters, by key, whose rows are to be read: all of them if there were commits, else the new ones.
// ok is false if nobody waits any more; the poller then has to end, since the next waiter starts another.
func (ws *waiters) due(commits bool) (byKey map[string][]*waiter, ok bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.all) == 0 || ws.closed {
		ws.cancel = nil
		return nil, false
	}
	if !commits && !ws.fresh {
		return nil, true
	}
	ws.fresh = false
	byKey = make(map[string][]*waiter)
	for w := range ws.all {
		if commits || !w.looked {
			w.looked = true
			byKey[w.key] = append(byKey[w.key], w)
		}
	}
	return byKey, true
}

// fail gives err to every waiter.
func (ws *waiters) fail(err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		w.answer(err)
	}
	clear(ws.all)
}

func (ws *waiters) close() {
	ws.mu.Lock()
	ws.closed = true
	cancel := ws.cancel
	ws.mu.Unlock()
	ws.fail(errClosed)
	if cancel != nil {
		cancel()
	}
	ws.pollers.Wait()
}

// answer ends the wait; only the first answer counts.
func (w *waiter) answer(err error) {
	select {
	case w.result <- err:
	default:
	}
}

// poll serves the waiters until there are none.
func (b *Backend) poll(ctx context.Context) {
	ticker := time.NewTicker(glance)
	defer ticker.Stop()
	sign := sign{query: b.dialect.Sign}
	defer sign.close()
	for {
		commits, err := sign.changed(ctx, b.db)
		if err != nil {
			b.awaiting.fail(b.fault(ctx, err))
		}
		// The sign is older than the rows read below: a commit in between shows in the rows or in the next sign.
		byKey, ok := b.awaiting.due(commits)
		if !ok {
			return
		}
		for key, list := range byKey {
			b.wake(ctx, key, list)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// wake reads the row of key and answers those for whom it has changed.
func (b *Backend) wake(ctx context.Context, key string, list []*waiter) {
	r, err := b.look(ctx, key)
	for _, w := range list {
		if err != nil || b.left(&r) <= 0 || r.seen() != w.seen {
			w.answer(err)
		}
	}
}

// sign watches a number that changes when another connection has committed, on a connection of its own that commits
// nothing. A pool of one connection cannot spare it; there, everything may have changed at any time.
type sign struct {
	query string
	conn  *sql.Conn
	stmt  *sql.Stmt
	last  int64
}

func (s *sign) changed(ctx context.Context, db *sql.DB) (bool, error) {
	if db.Stats().MaxOpenConnections == 1 {
		return true, nil
	}
	if s.stmt == nil {
		if err := s.open(ctx, db); err != nil {
			return false, err
		}
	}
	var now int64
	if err := s.stmt.QueryRowContext(ctx).Scan(&now); err != nil {
		s.close()
		return false, err
	}
	changed := now != s.last
	s.last = now
	return changed, nil
}

func (s *sign) open(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	stmt, err := conn.PrepareContext(ctx, s.query)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	s.conn, s.stmt = conn, stmt
	return nil
}

// close gives the connection back; what fails here has failed before.
func (s *sign) close() {
	if s.stmt != nil {
		_ = s.stmt.Close()
		_ = s.conn.Close()
		s.stmt, s.conn = nil, nil
	}
}
