package mongoleader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

const (
	// openTimeout bounds the opening of a change stream.
	openTimeout = 5 * time.Second
	// closeTimeout bounds the closing of a change stream, or of a list.
	closeTimeout = time.Second
	// idleTime is for how long a change stream that nobody uses is kept open.
	idleTime = 10 * time.Second
	// askAgain is how long a deployment is taken to have no change streams after it said so.
	askAgain = time.Minute
)

var errClosed = backend.WithKind(errors.New("the backend is closed"), backend.Misconfigured)

// stream tells which keys were taken or freed.
type stream interface {
	// next waits a while for a change and returns its key, "" if there was none or if every key may have changed.
	next(ctx context.Context) (key string, changed bool, err error)
	close(ctx context.Context)
}

// feed is the change stream that all waiters and watchers of a backend share. It is open while there are any, and for
// some seconds after.
type feed struct {
	open func(ctx context.Context) (stream, error)
	idle time.Duration

	relays sync.WaitGroup

	mu        sync.Mutex
	listeners map[string]map[*listener]struct{} // by key
	relay     *relay                            // nil while none is open or being opened
	without   time.Time                         // until then the deployment is taken to have no change streams
	refusal   error                             // what it said
	closed    bool
}

// relay is one change stream, and the goroutine that reads it.
type relay struct {
	cancel context.CancelFunc
	opened chan struct{} // closed when changes are told of from now on
	done   chan struct{} // closed at the end, when err is set
	err    error
}

// listener is told of changes of one key.
type listener struct {
	relay   *relay
	changed chan struct{} // has room for one
}

func newFeed(open func(ctx context.Context) (stream, error)) *feed {
	return &feed{open: open, idle: idleTime, listeners: make(map[string]map[*listener]struct{})}
}

// listen returns when changes of key are told of; the caller has to leave. The error wraps errors.ErrUnsupported if the
// deployment has no change streams, and ctx's if that ends.
func (f *feed) listen(ctx context.Context, key string) (*listener, error) {
	l, err := f.enter(ctx, key)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.relay.opened:
		return l, nil
	case <-l.relay.done:
		select {
		case <-l.relay.opened:
			return l, nil // It was open, and has ended since.
		default:
			err = l.relay.err
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
	switch {
	case f.closed:
		return nil, errClosed
	case time.Now().Before(f.without):
		return nil, f.refusal
	}
	if f.relay == nil {
		// The stream outlives the call that opens it.
		relayCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		r := &relay{cancel: cancel, opened: make(chan struct{}), done: make(chan struct{})}
		f.relay = r
		f.relays.Go(func() { f.follow(relayCtx, r) })
	}
	l := &listener{relay: f.relay, changed: make(chan struct{}, 1)}
	if f.listeners[key] == nil {
		f.listeners[key] = make(map[*listener]struct{})
	}
	f.listeners[key][l] = struct{}{}
	return l, nil
}

// leave ends what listen began; a nil listener has nothing to end.
func (f *feed) leave(key string, l *listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.listeners[key], l)
	if len(f.listeners[key]) == 0 {
		delete(f.listeners, key)
	}
}

// follow is the goroutine of a relay.
func (f *feed) follow(ctx context.Context, r *relay) {
	defer close(r.done)
	defer r.cancel()
	err := f.tellAll(ctx, r)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.relay == r {
		f.relay = nil
	}
	if f.closed {
		err = errClosed
	}
	if errors.Is(err, errors.ErrUnsupported) {
		f.without, f.refusal = time.Now().Add(askAgain), err
	}
	r.err = err
}

// tellAll opens a stream and tells of its changes, until it fails or has not been used for a while.
func (f *feed) tellAll(ctx context.Context, r *relay) error {
	s, err := f.openBriefly(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		s.close(ctx)
	}()
	close(r.opened)
	for used := time.Now(); time.Since(used) < f.idle || !f.retire(r); {
		key, changed, err := s.next(ctx)
		if err != nil {
			return err
		}
		if changed {
			f.tell(key)
		}
		if f.used() {
			used = time.Now()
		}
	}
	return nil
}

// openBriefly opens a stream.
func (f *feed) openBriefly(ctx context.Context) (stream, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	s, err := f.open(ctx)
	if err != nil && refusesStreams(err) {
		return nil, fmt.Errorf("%w: no change stream: %w", errors.ErrUnsupported, err)
	}
	return s, err
}

// tell wakes those who listen to a key, or all for "".
func (f *feed) tell(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if key != "" {
		wake(f.listeners[key])
		return
	}
	for _, list := range f.listeners {
		wake(list)
	}
}

func wake(list map[*listener]struct{}) {
	for l := range list {
		select {
		case l.changed <- struct{}{}:
		default:
		}
	}
}

func (f *feed) used() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.listeners) > 0
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

// close ends the stream and waits for its goroutine, and for that of one which is being closed.
func (f *feed) close() {
	f.mu.Lock()
	f.closed = true
	if f.relay != nil {
		f.relay.cancel()
	}
	f.mu.Unlock()
	f.relays.Wait()
}
