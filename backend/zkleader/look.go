package zkleader

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader/backend"
)

const (
	// recent is for how long a key that was seen free is acquired without another look.
	recent = time.Second
	// ancient is, beyond two TTLs, how old a record has to be to be taken at first sight, though its session lives.
	ancient = time.Minute
)

// sight is what was seen of a key. Whoever has one never changes it.
type sight struct {
	record

	path  string
	stat  zk.Stat  // the zero Stat if there is no node
	alive bool     // the node of the term exists
	by    *session // that wrote it; nil if it was read
	first time.Time
	last  time.Time
}

func (g *sight) exists() bool { return g.stat.Czxid != 0 }

// fence is that of the holder, or of the lease that is kept.
func (g *sight) fence() uint64 {
	if g.Fence != 0 || g.Token == "" {
		return g.Fence
	}
	return uint64(g.stat.Mzxid) //nolint:gosec // The server counts up from 0.
}

// acquired is when the holder acquired, in ms of the server's clock.
func (g *sight) acquired() int64 {
	if g.Since != 0 {
		return g.Since
	}
	return g.stat.Mtime
}

// node is the zxid that created the node of the term.
func (g *sight) node() int64 {
	if g.Node != 0 {
		return g.Node
	}
	return g.stat.Mzxid
}

func (g *sight) child() string { return childOf(g.path, g.Token) }

// removal deletes the node of the term, if it exists.
func (g *sight) removal() []any {
	if !g.alive {
		return nil
	}
	return []any{ended(g.child())}
}

// seen names the state that waiters compare. A renewal leaves it as it is.
func (g *sight) seen() string {
	switch {
	case g.Token != "":
		return "held " + strconv.FormatUint(g.fence(), 10)
	case g.Keep != 0:
		return "kept " + strconv.FormatUint(g.fence(), 10)
	}
	return ""
}

// needsClock reports whether only the server's clock can tell when the key is free.
func (g *sight) needsClock() bool {
	switch {
	case g.Token == "":
		return g.Keep != 0
	case !g.alive:
		return true
	}
	// Our own clock says only whether it is worth to ask.
	return time.Since(time.UnixMilli(g.stat.Mtime)) > g.old()
}

func (g *sight) old() time.Duration { return 2*g.ttl() + ancient }

func (g *sight) ttl() time.Duration { return time.Duration(g.TTL) * time.Millisecond }

// left is for how long the key is not free, 0 if it is.
//
// A lease whose session lives is over when its holder has not renewed for as long as it may, since this process saw
// the last renewal. If its session has ended that is known, and the server's clock may tell the end as well. So
// neither a step of that clock nor a session that ends early cuts a lease short.
func (g *sight) left(c *clock) time.Duration {
	now, known := c.now()
	until := func(ms int64) time.Duration { return time.Duration(ms-now) * time.Millisecond }
	switch {
	case g.Token == "" && g.Keep == 0:
		return 0
	case g.Token == "" && known:
		return max(0, until(g.stat.Mtime+g.Keep+1))
	case g.Token == "":
		return max(0, time.Duration(g.Keep+1)*time.Millisecond-time.Since(g.first))
	}
	left := g.ttl() - time.Since(g.first)
	if known && !g.alive {
		left = min(left, until(g.stat.Mtime+g.TTL+1))
	}
	if known && -until(g.stat.Mtime) > g.old() {
		left = 0
	}
	return max(0, left)
}

// holder is what Inspect says.
func (g *sight) holder(c *clock) backend.Holder {
	left := g.left(c)
	if left == 0 {
		return backend.Holder{}
	}
	return g.shown(left)
}

func (g *sight) shown(left time.Duration) backend.Holder {
	h := backend.Holder{
		Owner:     g.Owner,
		Fence:     g.fence(),
		Remaining: left,
		Kept:      g.Token == "",
		Seen:      g.seen(),
		Metadata:  g.Metadata,
	}
	if ms := g.acquired(); ms != 0 {
		h.Since = time.UnixMilli(ms)
	}
	return h
}

// look reads the node of a key, in one round trip unless something is beside what we make.
func (b *Backend) look(ctx context.Context, path string) (*sight, error) {
	g := &sight{path: path}
	var data []byte
	err := b.do(ctx, path, func(s *session) error {
		text, stat, err := s.conn.Get(path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		data, g.stat = text, *stat
		return nil
	})
	if err != nil {
		return nil, err
	}
	if old := b.sights.last(path); old != nil && old.stat.Mzxid == g.stat.Mzxid {
		g.record = old.record // as nobody has written since
	} else if g.record, err = decode(path, data); err != nil {
		b.sights.forget(path)
		return nil, err
	}
	if g.Token != "" {
		if err := b.lookForTerm(ctx, g); err != nil {
			return nil, err
		}
	}
	b.sights.note(g)
	if g.needsClock() {
		return g, b.readClock(ctx)
	}
	return g, nil
}

// lookForTerm finds out whether the node of the term exists. If the last change of the children is its creation it
// does; if there are others, somebody else made them.
func (b *Backend) lookForTerm(ctx context.Context, g *sight) error {
	if g.stat.NumChildren == 0 || g.stat.Pzxid == g.node() {
		g.alive = g.stat.NumChildren > 0
		return nil
	}
	path := g.child()
	return b.do(ctx, path, func(s *session) (err error) {
		g.alive, _, err = s.conn.Exists(path)
		return err
	})
}

// sights remember what was seen of keys, by their paths. They make an attempt cheaper, and tell for how long a state
// has not changed.
type sights struct {
	mu     sync.Mutex
	keep   time.Duration // what was not looked at for longer is of no use
	byPath map[string]*sight
	limit  int
}

// note remembers a sight of which the answer has just come.
func (ss *sights) note(g *sight) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	g.last = time.Now()
	g.first = g.last
	if old, ok := ss.byPath[g.path]; ok && old.stat.Mzxid == g.stat.Mzxid {
		g.first = old.first
	}
	if ss.byPath == nil {
		ss.byPath = make(map[string]*sight)
		ss.limit = 1 << 10
	}
	ss.byPath[g.path] = g
	if len(ss.byPath) < ss.limit {
		return
	}
	for path, old := range ss.byPath {
		if g.last.Sub(old.last) > ss.keep {
			delete(ss.byPath, path)
		}
	}
	ss.limit = max(1<<10, 2*len(ss.byPath))
}

// last returns the last sight, nil if there is none.
func (ss *sights) last(path string) *sight {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.byPath[path]
}

func (ss *sights) forget(path string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.byPath, path)
}

// free returns a recent sight of a free key, or nil.
func (b *Backend) free(path string) *sight {
	g := b.sights.last(path)
	if g == nil || time.Since(g.last) > recent || g.Token != "" || g.Keep != 0 {
		return nil
	}
	return g
}
