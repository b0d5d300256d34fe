package redisleader

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// AwaitRelease waits for the message that a release publishes on the key's channel. All waiters of a backend share one
// pub/sub connection, or one per node of a cluster, which is opened by the first of them and closed when there has been
// none for a while. A call costs no goroutine, and no command if the channel was subscribed before the holder came.
//
// It returns an error, and the caller polls, when the connection is lost or the server refuses the subscription. In a
// cluster it needs Redis 7.
func (b *Backend) AwaitRelease(ctx context.Context, key, seen string) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	return b.notices.await(ctx, b.recordKey(key), seen)
}

// node returns the client of the server that has a record. For a cluster it may do I/O.
func (b *Backend) node(ctx context.Context, key string) (redis.UniversalClient, error) {
	cluster, ok := b.client.(*redis.ClusterClient)
	if !ok {
		return b.client, nil
	}
	node, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, b.classify(ctx, err)
	}
	return node, nil
}

// waiter is one call of AwaitRelease.
type waiter struct {
	seen   string
	listed bool       // the record has been compared with seen since the topic is subscribed
	done   chan error // has room for the one result
}

// topic is a channel with waiters, or one that had some not long ago.
type topic struct {
	state   topicState
	feed    *feed // what subscribed it; nil while unsubscribed
	waiters map[*waiter]struct{}
	unused  int // sweeps since the last waiter left

	// The release of a lease whose fence is from and later cannot have been missed; 0 means that any can. Of those,
	// the newest one that was told of.
	from, released uint64
}

type topicState int

const (
	unsubscribed topicState = iota
	subscribing             // asked, and not yet confirmed by the server
	subscribed
	unsubscribing // asked, and not yet confirmed by the server
)

// covers reports whether whoever saw this state needs no look at the record, because the message of its end is still
// to come.
func (t *topic) covers(seen string) bool {
	fence := heldFence(seen)
	return t.state == subscribed && t.from != 0 && fence >= t.from && fence > t.released
}

// confirm notes that the server tells of releases from now on.
func (t *topic) confirm() {
	t.state, t.from, t.released = subscribed, 0, 0
}

// tell notes that the lease with this fence was released, and wakes everybody.
func (t *topic) tell(fence uint64) {
	t.released = max(t.released, fence)
	if t.from == 0 && fence != 0 {
		t.from = fence + 1
	}
	t.wake(nil)
}

// wake ends all waits with err.
func (t *topic) wake(err error) {
	for w := range t.waiters {
		w.done <- err
	}
	clear(t.waiters)
}

// unlisted returns the waiters for whom the record has to be looked at.
func (t *topic) unlisted() []*waiter {
	var list []*waiter
	for w := range t.waiters {
		if !w.listed {
			list = append(list, w)
		}
	}
	return list
}
