package zkleader

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	redialPause = 100 * time.Millisecond // after all servers were tried in vain
	leastGreet  = 500 * time.Millisecond // for a server's first answer
)

// hosts tells the client to which server it connects next, and dials it. The client itself would wait for a second
// before it tries the only server, or the first one, again.
type hosts struct {
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	greet   time.Duration // for a server's first answer
	granted *atomic.Int64
	watched func() []string // the paths of the session's watches

	mu      sync.Mutex
	servers []string
	tried   int // since the last success
	late    int // how many of them have not answered in time
	next    int
	last    *link
	over    bool
}

// Init takes the servers, which the client has shuffled.
func (h *hosts) Init(servers []string) error {
	h.servers = servers
	return nil
}

// Len is the number of servers.
func (h *hosts) Len() int { return len(h.servers) }

// Next returns the next server. retryStart makes the client look whether it was closed.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next%len(h.servers)]
	h.next++
	return server, h.over
}

// Connected notes a success.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried, h.late = 0, 0
}

// noteLate notes a server that has not answered in time.
func (h *hosts) noteLate() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.late++
}

// connect dials a server until ctx, which is that of the session, ends.
func (h *hosts) connect(ctx context.Context, network, addr string, timeout time.Duration) (net.Conn, error) {
	h.mu.Lock()
	wait := h.tried >= len(h.servers)
	h.tried++
	greet := h.greet * time.Duration(1+h.late/len(h.servers)) // if all of them are slow
	h.mu.Unlock()
	if wait {
		pause(ctx, redialPause)
	}
	if ctx.Err() != nil {
		return nil, zk.ErrClosing // so that no session follows on one that has ended
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := h.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l := newLink(conn)
	l.greet, l.late, l.granted, l.watched = greet, h.noteLate, h.granted, h.watched
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		_ = conn.Close() // hangUp may have been here.
		return nil, zk.ErrClosing
	}
	h.last = l
	return l, nil
}

// cut closes the connection if it is silent since an instant, so that the client tries another one.
func (h *hosts) cut(since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last != nil && h.last.began.Before(since) && h.last.silentSince(since) {
		_ = h.last.Close() // The client finds out what is wrong with it.
	}
}

// finish lets the client find out that it was closed.
func (h *hosts) finish() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
}

// hangUp closes the connection in any case.
func (h *hosts) hangUp() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last != nil {
		_ = h.last.Close() // It may have been closed.
	}
}

// pause lets time pass until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
