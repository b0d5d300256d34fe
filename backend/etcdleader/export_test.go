package etcdleader

import "github.com/goleader/leader/backend"

// WatchAfter is how long a lease is held before its key is watched.
const WatchAfter = watchAfter

// IsWatched reports whether a lease watches its key by now.
func IsWatched(l backend.Lease) bool {
	t, ok := l.(*term)
	if !ok {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.watching
}

// Place is what the keys of etcd begin with that belong to a key of the engine.
func (b *Backend) Place(key string) string { return b.prefix + key }
