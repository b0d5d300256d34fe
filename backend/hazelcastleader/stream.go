package hazelcastleader

import (
	"context"
	"sync"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/cluster"
	"github.com/hazelcast/hazelcast-go-client/types"
)

// openStream registers a listener for the map of leases at all members. When members come or go, events may be lost, and
// everybody is told to look. When the client has lost all of them, it does not register the listener anew in all modes.
func (b *Backend) openStream(ctx context.Context, tell func(key string)) (*stream, error) {
	m, err := b.client.GetMap(ctx, b.leases.name)
	if err != nil {
		return nil, classify(ctx, err)
	}
	broken := make(chan struct{})
	var once sync.Once
	breaks := func() { once.Do(func() { close(broken) }) }
	var closers []func(ctx context.Context)
	s := &stream{broken: broken, close: func(ctx context.Context) {
		for _, c := range closers {
			c(ctx)
		}
	}}
	lifecycle, err := b.client.AddLifecycleListener(func(hazelcast.LifecycleStateChanged) { breaks() })
	if err == nil {
		closers = append(closers, func(context.Context) { _ = b.client.RemoveLifecycleListener(lifecycle) })
		var membership types.UUID
		membership, err = b.client.AddMembershipListener(func(cluster.MembershipStateChanged) { tell("") })
		closers = append(closers, func(context.Context) { _ = b.client.RemoveMembershipListener(membership) })
	}
	if err == nil {
		var changes types.UUID
		changes, err = m.AddListener(ctx, listen(tell), true)
		// The client remembers it also if a member has not answered.
		closers = append(closers, func(ctx context.Context) { _ = m.RemoveListener(ctx, changes) })
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		s.close(ctx)
		return nil, classify(ctx, err)
	}
	return s, nil
}

// listen makes a listener that tells of every change but renewals.
func listen(tell func(key string)) hazelcast.MapListener {
	one := func(e *hazelcast.EntryNotified) {
		if key, ok := e.Key.(string); ok && key != "" && !isRenewal(e.OldValue, e.Value) {
			tell(key)
		}
	}
	all := func(*hazelcast.EntryNotified) { tell("") }
	return hazelcast.MapListener{
		EntryAdded: one, EntryUpdated: one, EntryRemoved: one, EntryEvicted: one, EntryExpired: one, EntryMerged: one,
		EntryLoaded: one, MapCleared: all, MapEvicted: all,
	}
}

// isRenewal reports whether the holder is the same one in two values.
func isRenewal(before, after any) bool {
	old, isOld := before.(string)
	now, isNow := after.(string)
	if !isOld || !isNow {
		return false
	}
	a, failed := decode("", old)
	b, err := decode("", now)
	return failed == nil && err == nil && a.seen() == b.seen()
}
