package netfault

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Trap is a fault that waits for one request. It stays armed until it has caught one, Release or [Proxy.Mend].
type Trap struct {
	proxy   *Proxy
	match   func([]byte) bool
	swallow bool

	caught   *event // the request is held, or its reply is swallowed
	released *event // a held request may go on
	settled  *event // nothing is left to do, and err is set
	err      error
}

// SwallowReply passes on the next request that match accepts and loses the reply, once. The connection stays open and
// further requests on it reach the server, but the client gets nothing more from it than its end. Replies to requests
// that were under way on the same connection may be lost as well.
//
// A nil match accepts any request, a client's greeting included. Calls of match are serialized; it must neither call
// the proxy nor keep the bytes.
func (p *Proxy) SwallowReply(match func(request []byte) bool) *Trap {
	return p.arm(&Trap{match: match, swallow: true})
}

// HoldRequest holds back the next request that match accepts, and what follows it on the same connection, until
// Release or Mend. The request is then delivered even if its client has closed the connection. Replies and other
// connections are not affected. For match see SwallowReply.
func (p *Proxy) HoldRequest(match func(request []byte) bool) *Trap {
	return p.arm(&Trap{match: match})
}

// Wait returns nil once a request is held, or the reply to it has arrived from the server and is swallowed. If ctx ends
// first, it returns an error that wraps ctx's.
func (t *Trap) Wait(ctx context.Context) error {
	select {
	case <-t.caught.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("netfault: nothing caught: %w", ctx.Err())
	}
}

// Release lets a held request go on, and returns nil when it has been written to the server's connection. It returns an
// error if that connection is gone or the bytes are dropped, and one that wraps ctx's if ctx ends first, for instance
// while the proxy is frozen; the request goes on all the same. A trap that has caught nothing is disarmed.
func (t *Trap) Release(ctx context.Context) error {
	t.proxy.release(t)
	select {
	case <-t.settled.done:
		return t.err
	case <-ctx.Done():
		return fmt.Errorf("netfault: release: %w", ctx.Err())
	}
}

// settle is called once: by whoever takes t off the list of armed traps, or by the link that holds its request.
func (t *Trap) settle(err error) {
	if err != nil {
		t.err = fmt.Errorf("netfault: release: %w", err)
	}
	t.settled.fire()
}

func (p *Proxy) arm(t *Trap) *Trap {
	t.proxy = p
	t.caught, t.released, t.settled = newEvent(), newEvent(), newEvent()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = append(p.traps, t)
	return t
}

func (p *Proxy) release(t *Trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.traps, t); i >= 0 {
		p.disarm(i)
		t.settle(nil)
	}
	t.released.fire()
}

// catch gives a request to the oldest trap that accepts it, and returns that one if the request is to be held.
func (p *Proxy) catch(l *link, request []byte) (held *Trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, t := range p.traps {
		if t.match != nil && !t.match(request) {
			continue
		}
		p.disarm(i)
		if t.swallow {
			l.muted = t
			t.settle(nil)
			return nil
		}
		l.held = t
		t.caught.fire()
		return t
	}
	return nil
}

// disarm is called with p.mu held.
func (p *Proxy) disarm(i int) { p.traps = slices.Delete(p.traps, i, i+1) }

// mutedBy returns the trap that swallows all replies on l, if there is one.
func (p *Proxy) mutedBy(l *link) *Trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.muted
}

// event happens at most once.
type event struct {
	once sync.Once
	done chan struct{} // closed when it happens
}

func newEvent() *event { return &event{done: make(chan struct{})} }

func (e *event) fire() { e.once.Do(func() { close(e.done) }) }
