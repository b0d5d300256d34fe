package zkleader

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader/backend"
)

// leastSilence is how long a server may be silent on a call before its connection is closed, however short a session
// is.
const leastSilence = 500 * time.Millisecond

// session is one session of ZooKeeper and the connections that it had. When it ends it is over for good: its client is
// closed and gets no other one.
type session struct {
	conn    *zk.Conn
	hosts   *hosts
	granted atomic.Int64 // the timeout, in ms
	over    <-chan struct{}
	cancel  context.CancelCauseFunc
	cause   func() error // why it is over
	watches watches

	mu        sync.Mutex
	connected bool
	known     bool          // the server knows the credentials
	change    chan struct{} // closed when one of them changes
	times     int           // how often it was connected
	settled   int           // the connection, by times, on which unanswered writes were settled, or were none
}

// silence is a logger.
type silence struct{}

func (silence) Printf(string, ...any) {}

// open starts a session. The caller has the backend's mutex.
func (b *Backend) open(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &session{
		change: make(chan struct{}),
		over:   ctx.Done(),
		cancel: cancel,
		cause:  func() error { return context.Cause(ctx) },
	}
	if b.current == nil {
		s.settled = 1
	}
	timeout := b.options.SessionTimeout
	s.hosts = &hosts{dial: b.options.Dial, greet: max(timeout/5, leastGreet), granted: &s.granted, watched: s.watches.paths}
	dial := zk.WithDialer(s.hosts.dialer(ctx))
	conn, events, err := zk.Connect(b.servers, timeout, dial, zk.WithHostProvider(s.hosts),
		zk.WithEventCallback(s.handle), zk.WithLogger(silence{}), zk.WithLogInfo(false))
	if err != nil {
		cancel(err)
		return nil, err
	}
	s.conn = conn
	b.tasks.Go(func() { s.run(b.options.Auth, events) })
	return s, nil
}

// dialer is connect in the form that the client wants.
func (h *hosts) dialer(ctx context.Context) zk.Dialer {
	return func(network, addr string, timeout time.Duration) (net.Conn, error) {
		return h.connect(ctx, network, addr, timeout)
	}
}

// run owns the session until its client has ended.
func (s *session) run(credentials []Auth, events <-chan zk.Event) {
	s.introduce(credentials)
	<-s.over
	s.hosts.finish()
	s.conn.Close()
	s.hosts.hangUp()
	for range events {
		continue // The client closes the channel when all of it has ended.
	}
	s.watches.fireAll()
}

// introduce tells the server the credentials, on the first connection; the client repeats them on later ones.
func (s *session) introduce(credentials []Auth) {
	for _, a := range credentials {
		for {
			var connection int
			if !s.await(func() bool { connection = s.times; return s.connected }) {
				return
			}
			err := s.conn.AddAuth(a.Scheme, []byte(a.Credential))
			if err == nil {
				break
			}
			if kindOf(err) != backend.Unavailable {
				s.end(err)
				return
			}
			if !s.await(func() bool { return !s.connected || s.times != connection }) {
				return
			}
		}
	}
	s.alter(func() { s.known = true })
}

// await waits until cond, which is called with the mutex, holds. It is false if the session ends before.
func (s *session) await(cond func() bool) bool {
	for {
		s.mu.Lock()
		ok, change := cond(), s.change
		s.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-change:
		case <-s.over:
			return false
		}
	}
}

// alter changes the state and tells those who wait for it.
func (s *session) alter(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.change)
	s.change = make(chan struct{})
}

// handle is called by the client with each event, and must not block.
func (s *session) handle(e zk.Event) {
	if e.Type != zk.EventSession {
		s.watches.fire(e.Path)
		return
	}
	switch e.State {
	case zk.StateHasSession:
		s.alter(func() { s.connected, s.times = true, s.times+1 })
	case zk.StateDisconnected:
		s.alter(func() { s.connected = false })
	case zk.StateExpired:
		s.end(zk.ErrSessionExpired)
	case zk.StateAuthFailed:
		s.end(zk.ErrAuthFailed)
	default:
	}
}

// end makes the session one that has ended.
func (s *session) end(cause error) {
	s.cancel(cause)
	s.watches.fireAll()
}

func (s *session) ended() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// usable waits until the session is connected. It returns nil also if the session ends.
func (s *session) usable(ctx context.Context) error {
	for {
		s.mu.Lock()
		ok, change := s.connected && s.known, s.change
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-change:
		case <-s.over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// session returns a session that is connected, and opens one if there is none.
func (b *Backend) session(ctx context.Context) (*session, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	for {
		s, err := b.newest(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.usable(ctx); err != nil {
			return nil, err
		}
		if !s.ended() {
			return s, nil
		}
		if err := s.cause(); !errors.Is(err, zk.ErrSessionExpired) {
			return nil, err
		}
	}
}

func (b *Backend) newest(ctx context.Context) (*session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	if b.current != nil && !b.current.ended() {
		return b.current, nil
	}
	s, err := b.open(ctx)
	b.current = s
	return s, err
}

// do makes requests on a connected session. path is for the text of an error. The client's calls know no context:
// when that of the call is past its deadline and the connection has been silent all the time, it is closed, which
// ends the call.
func (b *Backend) do(ctx context.Context, path string, f func(s *session) error) error {
	s, err := b.session(ctx)
	if err != nil {
		return classify(ctx, path, err)
	}
	began, silence := time.Now(), max(b.options.SessionTimeout/10, leastSilence)
	if deadline, ok := ctx.Deadline(); ok && deadline.Sub(began) >= silence {
		stop := context.AfterFunc(ctx, func() {
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				s.hosts.cut(began)
			}
		})
		defer stop()
	}
	err = s.settle(b.options.Root)
	if err == nil {
		err = f(s)
	}
	return classify(ctx, path, err)
}

// settle makes the first request on a new connection, which may lead to another server, one that waits for what was
// written before, also for writes that had no answer.
func (s *session) settle(path string) error {
	s.mu.Lock()
	times := s.times
	settled := s.settled == times
	s.mu.Unlock()
	if settled {
		return nil
	}
	if _, err := s.conn.Sync(path); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = times
	return nil
}
