package etcdleader

// WatchAfter is how long a lease is held before its key is watched.
const WatchAfter = watchAfter

// Place is what the keys of etcd begin with that belong to a key of the engine.
func (b *Backend) Place(key string) string { return b.prefix + key }
