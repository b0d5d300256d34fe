package hazelcastleader

import (
	"context"
	"crypto/rand"
	"errors"
	"math"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/types"
)

// The warnings of Advise.
const (
	ttlWarning = "the map has a default time to live: the members forget leases and fences with it, and another node may " +
		"lead at once, under a smaller fence; set time-to-live-seconds to 0 for it"
	idleWarning = "the map has a time after which idle entries go: the members forget leases and fences with it, and " +
		"another node may lead at once, under a smaller fence; set max-idle-seconds to 0 for it"
	goneWarning = "an entry of the map was gone at once: the members evict, and forget leases and fences with it, so that " +
		"another node may lead at once, under a smaller fence; configure no eviction for it"
	clockWarning = "the client reads the clocks of several members: what one of them has dated is judged by another " +
		"later by the option MaxSkew; use hazelcastleader.PinnedBalancer on its configuration"
)

// probePrefix begins keys that the engine does not build, of entries that are there for a moment. Each has one of its own:
// another process may look at the same time.
const probePrefix = "!advise-"

// Advise looks at how the members treat an entry of the map, for which it puts one and deletes it again, and whether the
// client reads one clock. It warns of times after which entries go, and of a client that reads several clocks. What a
// client cannot see is whether the map evicts entries or has no backup.
func (b *Backend) Advise(ctx context.Context) ([]string, error) {
	view, err := b.probe(ctx)
	if err != nil {
		return nil, err
	}
	var list []string
	if view == nil {
		return []string{goneWarning}, nil
	}
	if isSet(view.TTL) {
		list = append(list, ttlWarning)
	}
	if isSet(view.MaxIdle) {
		list = append(list, idleWarning)
	}
	pinned, err := b.isPinned(ctx)
	if err == nil && !pinned {
		list = append(list, clockWarning)
	}
	return list, err
}

// probe puts an entry, looks at it, and deletes it.
func (b *Backend) probe(ctx context.Context) (view *types.SimpleEntryView, err error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	key := probePrefix + rand.Text()
	err = b.leases.try(ctx, func(ctx context.Context, m *hazelcast.Map) error {
		err := m.Set(ctx, key, "probe")
		if err == nil {
			view, err = m.GetEntryView(ctx, key)
		}
		return errors.Join(err, m.Delete(ctx, key))
	})
	return view, err
}

// isSet reports whether a time of an entry is one, in ms, and not that for "never".
func isSet(ms int64) bool { return ms > 0 && ms < math.MaxInt32*1000 }

// isPinned reports whether some readings are of one clock.
func (b *Backend) isPinned(ctx context.Context) (bool, error) {
	first, err := b.now(ctx)
	if err != nil {
		return false, err
	}
	for range 3 {
		at, err := b.now(ctx)
		if err != nil || at.node() != first.node() {
			return false, err
		}
	}
	return true, nil
}
