package netfault

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Proxy forwards TCP connections to one server until it is told to misbehave. All methods may be called concurrently.
type Proxy struct {
	listener *net.TCPListener
	target   string
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu       sync.Mutex
	mode     mode
	delay    time.Duration
	changed  chan struct{} // closed and replaced whenever mode or delay changes
	traps    []*Trap       // armed ones, the oldest first
	links    map[*link]struct{}
	accepted int
}

// Listen starts a proxy in front of target, a TCP "host:port", on a free loopback port. The server need not be up:
// a connection that cannot be passed on is reset. ctx governs the call alone; the proxy lives until Close.
func Listen(ctx context.Context, target string) (*Proxy, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("netfault: listen: %w", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := &Proxy{
		listener: listener.(*net.TCPListener),
		target:   target,
		stop:     stop,
		changed:  make(chan struct{}),
		links:    map[*link]struct{}{},
	}
	p.running.Go(func() { p.accept(ctx) })
	return p, nil
}

// Addr is the proxy's own "host:port", to be given to clients.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Connections is the number of connections that are open now. One that its client closed while its bytes were frozen
// or held counts until they have gone on.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Accepted is the number of connections that clients have made so far, refused ones included.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Close resets all connections, refuses new ones and waits for the proxy's goroutines. It may be repeated.
func (p *Proxy) Close() {
	p.stop()
	// The only error is that of a second Close.
	_ = p.listener.Close()
	p.Cut()
	p.running.Wait()
}

func (p *Proxy) accept(ctx context.Context) {
	// If accepting fails for want of descriptors, clients shall be refused rather than left to hang.
	defer p.listener.Close()
	for {
		client, err := p.listener.AcceptTCP()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(ctx, client) })
	}
}

func (p *Proxy) serve(ctx context.Context, client *net.TCPConn) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	l := &link{proxy: p, client: client, stop: stop}
	if !p.add(l) {
		l.reset()
		return
	}
	defer p.remove(l)
	l.run(ctx)
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted++
	if p.mode == cut {
		return false
	}
	l.lost = p.mode == dropping
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}
