package redisleader

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// sweepEvery is how often unused topics are looked for, keepUnused how many sweeps one survives. A waiter whose
	// attempt failed comes back at once, so subscribing anew each time would be waste.
	sweepEvery = 10 * time.Second
	keepUnused = 2
	// stepTimeout bounds each step of the worker, so that a silent connection holds up the other topics for no longer
	// than that and the client's read timeout.
	stepTimeout = 2 * time.Second
)

var errNotifierClosed = errors.New("the backend is closed")

// notifier lets many waiters share the pub/sub connections of a backend. While there are topics it has one goroutine
// that does everything slow, so that waiters only ever wait for their context or their result, and one that reads from
// each connection.
type notifier struct {
	backend *Backend
	sweep   time.Duration

	mu      sync.Mutex
	topics  map[string]*topic
	feeds   map[redis.UniversalClient]*feed
	pending map[string]struct{} // topics that the worker has to look at
	signal  chan struct{}       // tells the worker of pending ones
	stop    context.CancelFunc  // ends the worker; nil while there is none
	closed  bool

	running sync.WaitGroup
}

func newNotifier(b *Backend) *notifier {
	return &notifier{
		backend: b,
		sweep:   sweepEvery,
		topics:  map[string]*topic{},
		feeds:   map[redis.UniversalClient]*feed{},
		pending: map[string]struct{}{},
		signal:  make(chan struct{}, 1),
	}
}

// await returns when the key may have become free since it was seen.
func (n *notifier) await(ctx context.Context, channel, seen string) error {
	w := &waiter{seen: seen, done: make(chan error, 1)}
	if err := n.join(ctx, channel, w); err != nil {
		return err
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		n.leave(channel, w)
		return ctx.Err()
	}
}

func (n *notifier) join(ctx context.Context, channel string, w *waiter) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return errNotifierClosed
	}
	t := n.topics[channel]
	if t == nil {
		t = &topic{waiters: map[*waiter]struct{}{}}
		n.topics[channel] = t
	}
	t.waiters[w] = struct{}{}
	t.unused = 0
	if w.listed = t.covers(w.seen); !w.listed {
		n.settleLater(channel)
	}
	if n.stop == nil {
		// The worker serves later waiters too, so it must not end with the first one's context.
		ctx, n.stop = context.WithCancel(context.WithoutCancel(ctx))
		n.running.Go(func() { n.work(ctx) })
	}
	return nil
}

func (n *notifier) leave(channel string, w *waiter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t := n.topics[channel]; t != nil {
		delete(t.waiters, w)
	}
}

// settleLater gives a topic to the worker. n.mu is held.
func (n *notifier) settleLater(channel string) {
	n.pending[channel] = struct{}{}
	select {
	case n.signal <- struct{}{}:
	default:
	}
}

// work settles topics until ctx ends or none is left.
func (n *notifier) work(ctx context.Context) {
	ticker := time.NewTicker(n.sweep)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.signal:
			for channel, ok := n.next(); ok && ctx.Err() == nil; channel, ok = n.next() {
				n.settle(ctx, channel)
			}
		case <-ticker.C:
			if idle := n.sweepUnused(ctx); idle {
				return
			}
		}
	}
}

func (n *notifier) next() (channel string, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for channel = range n.pending {
		delete(n.pending, channel)
		return channel, true
	}
	return "", false
}

// settle takes the next step that a topic needs.
func (n *notifier) settle(ctx context.Context, channel string) {
	t, state, list := n.inspect(channel)
	switch {
	case t == nil:
	case state == unsubscribed:
		n.subscribe(ctx, channel, t)
	case state == subscribed && len(list) > 0:
		n.look(ctx, channel, t, list)
	}
	// In the other states the server's confirmation brings the topic back here.
}

// inspect returns a topic, its state and its waiters who need a look. A topic that nobody needs any more is forgotten,
// one that is not subscribed is marked as about to be.
func (n *notifier) inspect(channel string) (t *topic, state topicState, list []*waiter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t = n.topics[channel]
	if t == nil {
		return nil, unsubscribed, nil
	}
	state = t.state
	if state == unsubscribed {
		if len(t.waiters) == 0 {
			delete(n.topics, channel)
			return nil, unsubscribed, nil
		}
		t.state = subscribing
	}
	return t, state, t.unlisted()
}

// look reads the record and ends the waits of those in list who have seen another state.
func (n *notifier) look(ctx context.Context, channel string, t *topic, list []*waiter) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	holder, err := n.backend.holder(ctx, channel)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil && !holder.Free() && t.state == subscribed && t.from == 0 {
		t.from = holder.Fence
		if holder.Kept {
			t.from++ // Its release was told before.
		}
	}
	for _, w := range list {
		if _, waits := t.waiters[w]; !waits {
			continue
		}
		if err == nil && !holder.Free() && holder.Seen == w.seen {
			w.listed = true
			continue
		}
		delete(t.waiters, w)
		w.done <- err
	}
}

// subscribe asks the server for a topic's messages.
func (n *notifier) subscribe(ctx context.Context, channel string, t *topic) {
	step, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	client, err := n.backend.node(step, channel)
	n.mu.Lock()
	if err != nil {
		n.forget(channel, t, err)
	}
	if n.topics[channel] != t { // or the backend was closed meanwhile
		n.mu.Unlock()
		return
	}
	f := n.feeds[client]
	if f == nil {
		f = newFeed(step, client, n.backend.sharded)
		n.feeds[client] = f
	}
	t.feed = f
	n.mu.Unlock()
	if err := f.subscribe(step, channel); err != nil {
		n.drop(f, n.backend.classify(step, err))
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.feeds[client] == f && !f.reading {
		f.reading = true
		n.running.Go(func() { n.read(ctx, f) })
	}
}

// read handles what comes over a connection until it ends.
func (n *notifier) read(ctx context.Context, f *feed) {
	err := f.receive(ctx, func(message any) { n.handle(f, message) })
	n.drop(f, n.backend.classify(ctx, err))
}

// handle takes what the server sent.
func (n *notifier) handle(f *feed, message any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch m := message.(type) {
	case *redis.Message:
		if t := n.topics[m.Channel]; t != nil && t.feed == f {
			t.tell(heldFence(m.Payload))
		}
	case *redis.Subscription:
		if t := n.topics[m.Channel]; t != nil && t.feed == f {
			n.confirmed(m, t)
		}
	}
}

// confirmed takes the confirmation of a change that was asked for, or the news of one that was not. n.mu is held.
func (n *notifier) confirmed(m *redis.Subscription, t *topic) {
	switch {
	case m.Kind == "subscribe" || m.Kind == "ssubscribe":
		if t.state == subscribed {
			t.wake(nil) // The client has connected anew, and what was published meanwhile is lost.
		}
		t.confirm()
		n.settleLater(m.Channel)
	case t.state == unsubscribing && len(t.waiters) > 0:
		t.state, t.feed = unsubscribed, nil
		n.settleLater(m.Channel)
	default: // Nobody needs it, or its slot has moved to another node.
		n.forget(m.Channel, t, nil)
	}
}

// forget ends a topic and all its waits. n.mu is held.
func (n *notifier) forget(channel string, t *topic, err error) {
	t.wake(err)
	if n.topics[channel] == t {
		delete(n.topics, channel)
	}
}

// drop ends a connection and the waits that relied on it.
func (n *notifier) drop(f *feed, err error) {
	n.mu.Lock()
	if n.feeds[f.client] == f {
		delete(n.feeds, f.client)
	}
	for channel, t := range n.topics {
		if t.feed == f {
			n.forget(channel, t, err)
		}
	}
	n.mu.Unlock()
	f.close()
}

// sweepUnused unsubscribes topics that nobody has waited for of late. If none is left it ends everything.
func (n *notifier) sweepUnused(ctx context.Context) (idle bool) {
	n.mu.Lock()
	leaving := map[string]*feed{}
	for channel, t := range n.topics {
		if len(t.waiters) > 0 {
			continue
		}
		if t.unused++; t.unused > keepUnused && t.state == subscribed {
			leaving[channel] = t.feed
		}
	}
	if len(leaving) == len(n.topics) {
		feeds := n.halt(nil)
		n.mu.Unlock()
		closeAll(feeds)
		return true
	}
	for channel := range leaving {
		n.topics[channel].state = unsubscribing
	}
	n.mu.Unlock()
	step, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	for channel, f := range leaving {
		if err := f.unsubscribe(step, channel); err != nil {
			n.drop(f, n.backend.classify(step, err))
		}
	}
	return false
}

// halt ends the worker and all waits. The caller closes the feeds. n.mu is held.
func (n *notifier) halt(err error) []*feed {
	for channel, t := range n.topics {
		n.forget(channel, t, err)
	}
	feeds := slices.Collect(maps.Values(n.feeds))
	clear(n.feeds)
	clear(n.pending)
	if n.stop != nil {
		n.stop()
		n.stop = nil
	}
	return feeds
}

// close ends everything for good and waits for the goroutines.
func (n *notifier) close() {
	n.mu.Lock()
	n.closed = true
	feeds := n.halt(errNotifierClosed)
	n.mu.Unlock()
	closeAll(feeds)
	n.running.Wait()
}

func closeAll(feeds []*feed) {
	for _, f := range feeds {
		f.close()
	}
}
