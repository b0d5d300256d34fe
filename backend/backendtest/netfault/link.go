package netfault

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

const (
	chunkSize   = 64 << 10
	dialTimeout = 10 * time.Second
)

var (
	errDropped = errors.New("bytes were dropped")
	errGone    = errors.New("connection is gone")
)

// link is a client's connection and the one to the server that belongs to it.
type link struct {
	proxy  *Proxy
	client *net.TCPConn
	stop   context.CancelFunc // ends whatever its goroutines wait for

	// Guarded by proxy.mu.
	lost  bool  // bytes were dropped, so none may follow
	muted *Trap // replies are swallowed
	held  *Trap // the last one that held a request

	mu     sync.Mutex
	server *net.TCPConn // nil until dialed
	over   bool
}

// run forwards in both directions until both have ended. The directions end on their own: a held request survives the
// client, and a last reply survives the end of the requests.
func (l *link) run(ctx context.Context) {
	server, err := l.connect(ctx)
	if err != nil {
		l.reset()
		return
	}
	var requests sync.WaitGroup
	requests.Go(func() { l.pump(ctx, server, l.client, l.request) })
	l.pump(ctx, l.client, server, l.reply)
	requests.Wait()
	l.close()
}

// connect dials the server when the faults let it.
func (l *link) connect(ctx context.Context) (*net.TCPConn, error) {
	lost, err := l.proxy.await(ctx, l, time.Now())
	if lost {
		<-ctx.Done()
	}
	if lost || err != nil {
		return nil, errGone
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", l.proxy.target)
	if err != nil {
		return nil, err
	}
	server := conn.(*net.TCPConn)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		_ = server.Close() // the reset came first
		return nil, errGone
	}
	l.server = server
	return server, nil
}

type sender func(ctx context.Context, to *net.TCPConn, chunk []byte, arrival time.Time)

// pump moves chunks until its source ends, and then ends its destination. It reads on when the destination is gone:
// closing a connection with unread bytes would reset it, and a server might lose a held request by that.
func (l *link) pump(ctx context.Context, to, from *net.TCPConn, send sender) {
	buf := make([]byte, chunkSize)
	for {
		n, err := from.Read(buf)
		arrival := time.Now()
		if err != nil {
			l.end(ctx, to, arrival)
			return
		}
		send(ctx, to, buf[:n], arrival)
	}
}

// request sends a chunk from the client, after it was held if a trap wants it.
func (l *link) request(ctx context.Context, server *net.TCPConn, chunk []byte, arrival time.Time) {
	trap := l.proxy.catch(l, chunk)
	if trap == nil {
		_ = l.send(ctx, server, chunk, arrival) // the server's end is seen by the other pump
		return
	}
	select {
	case <-trap.released.done:
	case <-ctx.Done():
	}
	trap.settle(l.send(ctx, server, chunk, arrival))
}

// reply sends a chunk from the server, unless it is swallowed.
func (l *link) reply(ctx context.Context, client *net.TCPConn, chunk []byte, arrival time.Time) {
	if trap := l.proxy.mutedBy(l); trap != nil {
		trap.caught.fire()
		return
	}
	_ = l.send(ctx, client, chunk, arrival) // the client's end is seen by the other pump
}

// send writes a chunk when it is its turn.
func (l *link) send(ctx context.Context, to *net.TCPConn, chunk []byte, arrival time.Time) error {
	lost, err := l.proxy.await(ctx, l, arrival)
	if err != nil {
		return errGone
	}
	if lost {
		return errDropped
	}
	_, err = to.Write(chunk)
	return err
}

// end passes on the end of a stream, which waits its turn behind the bytes. A reset is passed on as an orderly end,
// lest it overtake bytes that the receiver has not read. After a loss the end is lost too, until the link is reset.
func (l *link) end(ctx context.Context, to *net.TCPConn, arrival time.Time) {
	lost, err := l.proxy.await(ctx, l, arrival)
	switch {
	case lost:
		<-ctx.Done()
	case err == nil:
		_ = to.CloseWrite() // it may be gone already
	}
}

// reset ends the link at once; both sides see a reset connection.
func (l *link) reset() {
	l.stop()
	l.shut(func(conn *net.TCPConn) { _ = conn.SetLinger(0) })
}

// close ends the link in good order.
func (l *link) close() { l.shut(func(*net.TCPConn) {}) }

func (l *link) shut(prepare func(*net.TCPConn)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	for _, conn := range []*net.TCPConn{l.client, l.server} {
		if conn != nil {
			prepare(conn)
			_ = conn.Close() // a second Close changes nothing
		}
	}
}
