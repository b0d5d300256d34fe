package etcdleader

// WatchAfter is how long a lease is held before its key is watched.
const WatchAfter = watchAfter

// Place is where the record of a key is kept.
func (b *Backend) Place(key string) string { return b.place(key) }
