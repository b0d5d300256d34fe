package pgleader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
)

// feed lets all waiters and watchers of a backend share one connection that listens. It is opened by the first of them
// and closed when there have been none for a while.
type feed struct {
	user     *pgxpool.Pool
	table    string
	channel  string
	presence int64
	kind     func(error) backend.Kind
	sweep    time.Duration // how often topics that nobody uses are looked for
	quiet    time.Duration // how long a connection may say nothing

	mu      sync.Mutex
	session *session // nil while none is open or being opened
	closed  bool

	running sync.WaitGroup
}

// listener is somebody who wants to know about a key.
type listener struct {
	session *session
	key     string
	watches bool          // also wants to know of acquisitions
	changed chan struct{} // has room for one
}

func newFeed(user *pgxpool.Pool, table string, kind func(error) backend.Kind) *feed {
	return &feed{
		user: user, table: table, channel: sqlleader.Channel(table), presence: sqlleader.Presence(table),
		kind: kind, sweep: sweepEvery, quiet: quiet,
	}
}

// join returns when the listener is told of changes; the caller has to leave.
func (f *feed) join(ctx context.Context, key string, watches bool) (*listener, error) {
	l, err := f.enter(ctx, key, watches)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.session.listening:
		return l, nil
	case <-l.session.done:
		err = l.session.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	f.leave(l)
	return nil, err
}

func (f *feed) enter(ctx context.Context, key string, watches bool) (*listener, error) {
	if f.user == nil {
		return nil, backend.WithKind(errors.New("the *pgxpool.Pool is nil"), backend.Misconfigured)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errClosed
	}
	if f.session == nil {
		f.session = f.start(ctx)
	}
	l := &listener{session: f.session, key: key, watches: watches, changed: make(chan struct{}, 1)}
	f.session.add(l)
	return l, nil
}

// start begins a session, which serves others too and must not end with the first one's context.
func (f *feed) start(ctx context.Context) *session {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &session{
		feed: f, cancel: cancel, topics: make(map[string]*topic), tables: make(map[uint32]bool),
		listening: make(chan struct{}), done: make(chan struct{}),
	}
	f.running.Go(func() {
		defer cancel()
		f.finish(s, s.run(ctx))
	})
	return s
}

// finish lets the listeners of s know that they are told nothing any more.
func (f *feed) finish(s *session, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session == s {
		f.session = nil
	}
	s.err = f.classify(err)
	if f.closed {
		s.err = errClosed
	}
	close(s.done)
}

// classify says what kind of error ended a session.
func (f *feed) classify(err error) error {
	if err == nil {
		return nil
	}
	kind := f.kind(err)
	if kind == backend.Unknown {
		kind = backend.Unavailable
	}
	return backend.WithKind(fmt.Errorf("listen: %w", err), kind)
}

func (f *feed) leave(l *listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.session.remove(l)
}

// covers reports whether l needs no look at the row to know that a lease which was seen has not ended unnoticed.
func (f *feed) covers(l *listener, seen string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return l.session.topics[l.key].covers(seen)
}

// looked notes the holder that was seen while l was told of changes.
func (f *feed) looked(l *listener, h backend.Holder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.session.topics[l.key].look(h)
}

// certain reports whether l is told of acquisitions, too.
func (f *feed) certain(l *listener) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return l.session.presence == ours || l.session.presence == others
}

// close ends the session and waits for its goroutine.
func (f *feed) close() {
	f.mu.Lock()
	f.closed = true
	if f.session != nil {
		f.session.cancel()
	}
	f.mu.Unlock()
	f.running.Wait()
}

// open opens a connection that listens.
func (f *feed) open(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := connect(ctx, listening(f.user))
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{f.channel}.Sanitize()); err != nil {
		f.hangUp(ctx, conn)
		return nil, err
	}
	return conn, nil
}

// hangUp closes a connection, if need be without telling the server. What fails here has failed before.
func (f *feed) hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if before := f.user.Config().BeforeClose; before != nil {
		before(conn)
	}
	_ = conn.Close(ctx)
}
