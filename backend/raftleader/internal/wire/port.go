package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/rpc"
	"sync"
	"time"
)

const (
	// dialTimeout bounds a connection with its greeting, and acceptTimeout the same on the other side.
	dialTimeout   = 2 * time.Second
	acceptTimeout = 5 * time.Second
)

// DialFunc connects to an address. ctx ends the attempt.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Port is where a node listens, and the connections that go out from it. Its methods may be called concurrently.
type Port struct {
	ID       string       // of this server
	Listener net.Listener // is closed by Close
	Dial     DialFunc     // nil means that of net.Dialer
	TLS      *tls.Config  // nil means none; both sides show a certificate
	Handler  Handler

	ctx     context.Context //nolint:containedctx // of everything that the port runs; it ends with Close
	stop    context.CancelFunc
	rafts   chan net.Conn // accepted raft streams
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{} // all that are open, in and out
	lines  map[target]*line
	given  given
}

// target is a server at an address. A patient line is for calls that are answered late on purpose.
type target struct {
	id, address string
	patient     bool
}

// Open prepares the port for connections that go out. The fields must not change from then on; ctx lends its values and
// not its end.
func (p *Port) Open(ctx context.Context) {
	p.ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.rafts = make(chan net.Conn)
	p.conns = map[net.Conn]struct{}{}
	p.lines = map[target]*line{}
	if p.Dial == nil {
		p.Dial = new(net.Dialer).DialContext
	}
}

// Ready starts to accept.
func (p *Port) Ready() { p.running.Go(p.accept) }

// Close closes the listener and every connection, and waits for what served them.
func (p *Port) Close() {
	p.Cut()
	p.running.Wait()
}

// Cut is Close without the wait.
func (p *Port) Cut() {
	p.mu.Lock()
	p.closed = true
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	p.stop()
	_ = p.Listener.Close() // it may be closed already
	for conn := range conns {
		_ = conn.Close() // likewise
	}
}

func (p *Port) accept() {
	for {
		conn, err := p.Listener.Accept()
		switch {
		case err == nil:
			p.running.Go(func() { p.serve(conn) })
		case p.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default: // out of files, say
			select {
			case <-time.After(50 * time.Millisecond):
			case <-p.ctx.Done():
				return
			}
		}
	}
}

// serve greets whoever connected and serves the stream.
func (p *Port) serve(conn net.Conn) {
	if p.TLS != nil {
		conn = tls.Server(conn, p.TLS)
	}
	conn, ok := p.track(conn)
	if !ok {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(acceptTimeout)) // a connection that is over fails at the next read
	g, err := readGreeting(conn)
	if err != nil {
		_ = conn.Close()
		return
	}
	verdict := g.judge(p.ID)
	_, err = conn.Write([]byte{verdict})
	if err != nil || verdict != accepted {
		_ = conn.Close()
		return
	}
	_ = conn.SetDeadline(time.Time{})
	p.hand(g.kind, conn)
}

// hand gives an accepted stream to whoever it is for.
func (p *Port) hand(kind Kind, conn net.Conn) {
	if kind == Raft {
		select {
		case p.rafts <- conn:
		case <-p.ctx.Done():
			_ = conn.Close()
		}
		return
	}
	server := rpc.NewServer()
	var err error
	if kind == Hellos {
		err = server.RegisterName(service, &hellos{p})
	} else {
		err = server.RegisterName(service, &calls{p})
	}
	if err == nil {
		server.ServeConn(conn)
	}
	_ = conn.Close()
}

// track notes a connection that Close has to close, and returns it as one that takes itself off the list.
func (p *Port) track(conn net.Conn) (net.Conn, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close()
		return nil, false
	}
	t := &tracked{Conn: conn, port: p}
	p.conns[t] = struct{}{}
	return t, true
}

// tracked is a connection of a port.
type tracked struct {
	net.Conn

	port *Port
}

// Close implements [net.Conn].
func (t *tracked) Close() error {
	t.port.mu.Lock()
	delete(t.port.conns, t)
	t.port.mu.Unlock()
	return t.Conn.Close()
}

// dial opens a stream to a server.
func (p *Port) dial(ctx context.Context, kind Kind, to target) (net.Conn, error) {
	raw, err := p.Dial(ctx, "tcp", to.address)
	if err != nil {
		return nil, err
	}
	if p.TLS != nil {
		raw = tls.Client(raw, p.named(to.address))
	}
	conn, ok := p.track(raw)
	if !ok {
		return nil, net.ErrClosed
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // a connection that is over fails at the next write
	}
	err = greeting{kind, version, to.id}.write(conn)
	if err == nil {
		err = readVerdict(conn)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return conn, nil
}

// named is the client's side of the TLS configuration, which expects the name that was dialled unless another is set.
func (p *Port) named(address string) *tls.Config {
	if p.TLS.ServerName != "" || p.TLS.InsecureSkipVerify {
		return p.TLS
	}
	c := p.TLS.Clone()
	c.ServerName, _, _ = net.SplitHostPort(address)
	return c
}
