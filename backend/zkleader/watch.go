package zkleader

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
)

// watches are those of a session's connection, at most one for each node however many wait. ZooKeeper keeps one until
// the node changes, as this client cannot take it back.
type watches struct {
	mu     sync.Mutex
	byPath map[string]*watch
}

// watch is told once.
type watch struct {
	armed  chan struct{} // closed when the server has answered, with the following set
	exists bool
	err    error

	fired chan struct{} // closed when the node was created, changed or deleted, or nothing watches it any more
	told  []func()      // called then, on goroutines of their own; guarded by the mutex of watches
}

// watchTerm watches the node of a term, on behalf of all who ask for it. It watches nothing if there is no such node: it
// never comes back, so that the watch would stay for ever.
func (b *Backend) watchTerm(s *session, path string) *watch {
	return b.watch(s, path, func() (exists, watched bool, err error) {
		_, _, _, err = s.conn.GetW(path)
		if errors.Is(err, zk.ErrNoNode) {
			return false, false, nil
		}
		return true, true, err
	})
}

// watchKey watches the node of a key likewise, which may be created as well.
func (b *Backend) watchKey(s *session, path string) *watch {
	return b.watch(s, path, func() (exists, watched bool, err error) {
		exists, _, _, err = s.conn.ExistsW(path)
		return exists, true, err
	})
}

func (b *Backend) watch(s *session, path string, request func() (exists, watched bool, err error)) *watch {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if w, ok := s.watches.byPath[path]; ok {
		return w
	}
	w := &watch{armed: make(chan struct{}), fired: make(chan struct{})}
	if s.watches.byPath == nil {
		s.watches.byPath = make(map[string]*watch)
	}
	s.watches.byPath[path] = w
	arm := func() {
		defer close(w.armed)
		var watched bool
		if w.exists, watched, w.err = request(); w.err != nil || !watched || s.ended() {
			s.watches.drop(path, w)
		}
	}
	if !b.spawn(arm) {
		w.err = errClosed
		close(w.armed)
		close(w.fired)
		delete(s.watches.byPath, path)
	}
	return w
}

func (ws *watches) fire(path string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w, ok := ws.byPath[path]; ok {
		delete(ws.byPath, path)
		w.tell()
	}
}

// drop fires a watch that the server does not have. There may be another one on the node meanwhile, which stays.
func (ws *watches) drop(path string, w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.byPath[path] == w {
		delete(ws.byPath, path)
		w.tell()
	}
}

// paths returns what is watched.
func (ws *watches) paths() []string {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return slices.Collect(maps.Keys(ws.byPath))
}

func (ws *watches) fireAll() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.byPath {
		w.tell()
	}
	ws.byPath = nil
}

// tell is called once, with the mutex.
func (w *watch) tell() {
	close(w.fired)
	for _, f := range w.told {
		go f()
	}
}

// listen calls f when the watch has fired. f is quick.
func (ws *watches) listen(w *watch, f func()) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	select {
	case <-w.fired:
		go f()
	default:
		w.told = append(w.told, f)
	}
}

// ready waits until the server has answered.
func (w *watch) ready(ctx context.Context) error {
	select {
	case <-w.armed:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait waits until the node changes.
func (w *watch) wait(ctx context.Context) error {
	select {
	case <-w.fired:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
