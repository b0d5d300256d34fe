package zkleader

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader/backend"
)

// watchAfter is how old a lease becomes before its node is watched. Short runs do without that request.
const watchAfter = 100 * time.Millisecond

// lease is a term.
type lease struct {
	backend *Backend
	path    string
	child   string
	token   string
	ttl     time.Duration
	fence   uint64

	session *session // which has the node of the term

	mu       sync.Mutex
	current  *sight    // after our last write
	sent     time.Time // when the last write that had an answer was sent
	released bool
	lost     chan struct{} // closed when it is known to be lost; made by Lost
	gone     bool          // it is known to be lost
	watched  bool          // the node is watched, or soon will be
	timer    *time.Timer   // until it is, nil before Lost
}

// newLease is called before the request is sent.
func (b *Backend) newLease(req backend.Request) *lease {
	path := b.path(req.Key)
	return &lease{
		backend: b,
		path:    path,
		child:   childOf(path, req.Token),
		token:   req.Token,
		ttl:     req.TTL,
		sent:    time.Now(),
	}
}

// take completes the lease with the answer.
func (l *lease) take(g *sight) {
	l.fence, l.session, l.current = g.fence(), g.by, g
}

// Fence returns the zxid of the acquisition.
func (l *lease) Fence() uint64 { return l.fence }

// Renew repeats the TTL of the acquisition, by a write that a majority of the servers has. It costs one round trip.
func (l *lease) Renew(ctx context.Context, _ time.Duration) error {
	var err error
	for try := range conflicts {
		sent := time.Now()
		g, over := l.state(sent)
		if try > 0 {
			g = g.anyVersion() // The record is as it was, so it was another renewal.
		}
		if over {
			return backend.ErrLost
		}
		check := &zk.CheckVersionRequest{Path: l.child, Version: -1}
		var next *sight
		next, err = l.backend.write(ctx, g, g.settledRecord(), check)
		switch {
		case err == nil:
			l.renewed(next, sent)
			return nil
		case errors.Is(err, zk.ErrNoNode):
			l.lose()
			return backend.ErrLost
		case !isConflict(err):
			return err
		}
		if err := l.refresh(ctx); err != nil {
			return err
		}
	}
	return err
}

// state returns what is known of the record, and whether the lease is over.
func (l *lease) state(now time.Time) (g *sight, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current, l.gone || l.released || now.Sub(l.sent) >= l.ttl
}

func (l *lease) renewed(g *sight, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return
	}
	if sent.After(l.sent) {
		l.sent = sent
	}
	l.follow(g)
}

// follow takes a newer sight. The caller has the mutex.
func (l *lease) follow(g *sight) {
	if g.stat.Mzxid > l.current.stat.Mzxid {
		l.current = g
	}
}

// refresh looks what another request of ours, or somebody else, has written.
func (l *lease) refresh(ctx context.Context) error {
	g, err := l.backend.look(ctx, l.path)
	if err != nil {
		return err
	}
	if g.Token != l.token || g.fence() != l.fence {
		l.lose()
		return backend.ErrLost
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follow(g)
	return nil
}

// Release ends the lease in one round trip. What is kept is a state of the record, which needs neither this process
// nor its session.
func (l *lease) Release(ctx context.Context, keep time.Duration) error {
	var err error
	g := l.finish()
	for range conflicts {
		if g == nil {
			if g, err = l.backend.look(ctx, l.path); err != nil {
				return err
			}
		}
		held := g.Token == l.token && g.fence() == l.fence
		kept := g.Keep != 0 && g.Spent == l.token
		if !held && !kept {
			return nil
		}
		if held && l.expired() {
			keep = 0 // It was over.
		}
		if _, err = l.backend.write(ctx, g, l.left(g, keep), g.removal()...); !isConflict(err) {
			return err
		}
		g = nil
	}
	return err
}

// finish marks the lease as released. It returns what is known of the record, nil if it was released before.
func (l *lease) finish() *sight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.released {
		return nil
	}
	l.released = true
	return l.current
}

func (l *lease) expired() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.sent) >= l.ttl
}

// left is the record that the lease leaves.
func (l *lease) left(g *sight, keep time.Duration) record {
	r := g.freed(l.token)
	if keep > 0 {
		r.Keep, r.Fence, r.Since = millis(keep), l.fence, g.acquired()
		r.Owner, r.Metadata = g.Owner, g.Metadata
	}
	return r
}
