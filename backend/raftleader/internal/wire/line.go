package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"sync/atomic"
	"time"
)

const (
	// silence is for how long a line may be without an answer before it is taken for dead, so that the next call dials.
	silence = time.Second
	// PollFor is for how long a node is asked to wait with its answer to [Await].
	PollFor = 2 * time.Second
	// writeTimeout bounds a write to a connection that takes nothing more.
	writeTimeout = time.Second
)

// ErrUnsent says that a call was not made, so that it has no effect. It wraps why.
var ErrUnsent = errors.New("not reached")

// line is a connection for calls to one server, shared by all who call it.
type line struct {
	ready  chan struct{} // closed when the fields below are set
	client *rpc.Client
	conn   *watched
	err    error
	hung   atomic.Bool // hung up by this side
}

// watched is a connection of which is known since when it owes an answer. It closes itself when the other side has ended
// it, which nobody may ever call again.
type watched struct {
	net.Conn

	owed  atomic.Int64 // since when, in ns of the monotonic clock from began; 0 if it owes none
	ended func()       // called when there is nothing more to read
}

var began = time.Now()

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.owed.Store(0)
	if err != nil {
		w.ended()
		_ = w.Close() // it may be closed already
	}
	return n, err
}

func (w *watched) Write(b []byte) (int, error) {
	w.owed.CompareAndSwap(0, int64(time.Since(began)))
	_ = w.SetWriteDeadline(time.Now().Add(writeTimeout)) // a connection that is over fails at the write
	return w.Conn.Write(b)
}

// silent reports whether the other side has been owing an answer for longer than the given time.
func (w *watched) silent(most time.Duration) bool {
	owed := w.owed.Load()
	return owed != 0 && time.Since(began)-time.Duration(owed) > most
}

// line returns the line to a server, which it dials if there is none. The wait ends with ctx, the attempt does not: others
// may wait too.
func (p *Port) line(ctx context.Context, kind Kind, to target) (*line, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, net.ErrClosed
	}
	l := p.lines[to]
	if l == nil {
		l = &line{ready: make(chan struct{})}
		p.lines[to] = l
		p.running.Go(func() { p.connect(l, kind, to) }) //nolint:contextcheck // it is for everybody who comes
	}
	p.mu.Unlock()
	select {
	case <-l.ready:
		return l, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// connect dials for a line.
func (p *Port) connect(l *line, kind Kind, to target) {
	defer close(l.ready)
	ctx, cancel := context.WithTimeout(p.ctx, dialTimeout)
	defer cancel()
	conn, err := p.dial(ctx, kind, to)
	if err != nil {
		l.err = err
		p.hangUp(l, to)
		return
	}
	l.conn = &watched{Conn: conn, ended: func() { p.forget(l, to) }}
	l.client = rpc.NewClient(l.conn)
}

// hangUp makes the next call dial anew.
func (p *Port) hangUp(l *line, to target) {
	p.forget(l, to)
	l.hung.Store(true)
	if l.client != nil {
		_ = l.client.Close() // it may be closed already
	}
}

// forget takes a line off the list.
func (p *Port) forget(l *line, to target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines[to] == l {
		delete(p.lines, to)
	}
}

// call calls a method of a server. The error is an [ErrUnsent] if it was not called. The call ends with ctx, or when gone
// is closed; the other side may go on.
func (p *Port) call(ctx context.Context, kind Kind, to target, method string, args, reply any, gone <-chan struct{}) error {
	for attempt := 1; ; attempt++ {
		l, err := p.line(ctx, kind, to)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnsent, err)
		}
		err = p.callOn(ctx, l, to, method, args, reply, gone)
		if !errors.Is(err, errEnded) {
			return err
		}
		if attempt > 1 {
			return fmt.Errorf("%w: %w", ErrUnsent, err)
		}
	}
}

func (p *Port) callOn(
	ctx context.Context, l *line, to target, method string, args, reply any, gone <-chan struct{},
) error {
	done := l.client.Go(method, args, reply, make(chan *rpc.Call, 1)).Done
	select {
	case c := <-done:
		if c.Error == nil {
			return nil
		}
		// Of a call that this side has hung up on it is not known whether it was sent.
		ended := errors.Is(c.Error, rpc.ErrShutdown) && !l.hung.Load()
		p.hangUp(l, to)
		if ended {
			return errEnded
		}
		return c.Error
	case <-gone:
		p.given.up(to.id, args, done)
		return ErrGone
	case <-ctx.Done():
		p.given.up(to.id, args, done)
		most := silence
		if to.patient {
			most += PollFor
		}
		if l.conn.silent(most) {
			p.hangUp(l, to)
		}
		return ctx.Err()
	}
}

var (
	// ErrGone says that the wait for an answer has ended because the one who was asked is no longer the raft leader.
	ErrGone  = errors.New("the node is no longer the raft leader")
	errEnded = errors.New("the other side had ended the line before the call")
)
