package hazelcastleader

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

const (
	// openTimeout bounds the registration of a listener at all members.
	openTimeout = 5 * time.Second
	// closeTimeout bounds its end.
	closeTimeout = time.Second
	// idleTime is for how long a listener that nobody uses is kept.
	idleTime = 10 * time.Second
)

var errClosed = backend.WithKind(errors.New("the backend is closed"), backend.Misconfigured)

// A stream tells of changes until it is closed. broken is closed when the client has lost its connections, after which
// nothing may be told any more.
type stream struct {
	broken <-chan struct{}
	close  func(ctx context.Context)
}

// opener opens a stream that calls tell with the key of each change, "" if every key may have changed.
type opener func(ctx context.Context, tell func(key string)) (*stream, error)

// feed is the stream that all waiters and watchers of a backend share. It is open while there are any, and for some
// seconds after.
type feed struct {
	open opener
	idle time.Duration

	running sync.WaitGroup // begun under mu, while the feed is not closed

	mu        sync.Mutex
	listeners map[string]map[*listener]struct{} // by key
	relay     *relay                            // nil while none is open or being opened
	closed    bool
}

// relay is one stream, and the goroutine that keeps it.
type relay struct {
	cancel context.CancelFunc
	opened chan struct{} // closed when changes are told of from now on
	left   chan struct{} // has room for one; somebody has left
	done   chan struct{} // closed at the end, when err is set
	err    error         // nil if it ended because it was broken
}

// listener is told of changes of one key.
type listener struct {
	relay   *relay
	changed chan struct{} // has room for one
}

func newFeed(open opener) *feed {
	return &feed{open: open, idle: idleTime, listeners: make(map[string]map[*listener]struct{})}
}

// listen returns when changes of key are told of; the caller has to leave. The error wraps ctx's if that ends.
func (f *feed) listen(ctx context.Context, key string) (*listener, error) {
	l, err := f.enter(ctx, key)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.relay.opened:
		return l, nil
	case <-l.relay.done:
		if err = l.relay.err; err == nil {
			return l, nil // It was open.
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	f.leave(key, l)
	return nil, err
}

func (f *feed) enter(ctx context.Context, key string) (*listener, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errClosed
	}
	if f.relay == nil {
		// The stream outlives the call that opens it.
		relayCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f.relay = &relay{
			cancel: cancel, opened: make(chan struct{}), left: make(chan struct{}, 1), done: make(chan struct{}),
		}
		r := f.relay
		f.running.Go(func() { f.follow(relayCtx, r) })
	}
	l := &listener{relay: f.relay, changed: make(chan struct{}, 1)}
	if f.listeners[key] == nil {
		f.listeners[key] = make(map[*listener]struct{})
	}
	f.listeners[key][l] = struct{}{}
	return l, nil
}

// aside runs what may outlive the call that needs it, but not the feed.
func (f *feed) aside(run func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errClosed
	}
	f.running.Go(run)
	return nil
}

// leave ends what listen began; a nil listener has nothing to end.
func (f *feed) leave(key string, l *listener) {
	if l == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.listeners[key], l)
	if len(f.listeners[key]) == 0 {
		delete(f.listeners, key)
	}
	wake(l.relay.left)
}

// follow is the goroutine of a relay.
func (f *feed) follow(ctx context.Context, r *relay) {
	defer close(r.done)
	defer r.cancel()
	err := f.keep(ctx, r)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.relay == r {
		f.relay = nil
	}
	if f.closed {
		err = errClosed
	}
	r.err = err
}

// keep opens a stream and keeps it until it is broken, is not wanted any more, or has not been used for a while.
func (f *feed) keep(ctx context.Context, r *relay) error {
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	s, err := f.open(opening, f.tell)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		s.close(ctx)
	}()
	close(r.opened)
	idle := time.NewTimer(f.idle)
	defer idle.Stop()
	for {
		select {
		case <-s.broken:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-r.left:
			idle.Reset(f.idle)
		case <-idle.C:
			if f.retire(r) {
				return nil
			}
		}
	}
}

// tell wakes those who listen to a key, or all for "".
func (f *feed) tell(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if key != "" {
		wakeAll(f.listeners[key])
		return
	}
	for _, list := range f.listeners {
		wakeAll(list)
	}
}

func wakeAll(list map[*listener]struct{}) {
	for l := range list {
		wake(l.changed)
	}
}

func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// retire makes room for another relay if nobody listens to this one.
func (f *feed) retire(r *relay) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.listeners) > 0 {
		return false
	}
	if f.relay == r {
		f.relay = nil
	}
	return true
}

// close ends the stream and waits for its goroutine, for that of one which is being closed, and for what runs aside.
func (f *feed) close() {
	f.mu.Lock()
	f.closed = true
	if f.relay != nil {
		f.relay.cancel()
	}
	f.mu.Unlock()
	f.running.Wait()
}
