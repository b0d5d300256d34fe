package consulleader

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
)

const (
	// pollTime is how long the server holds a blocking query back, and lateness what it and the way may add. A server
	// with a shorter history than the query asks for answers only then.
	pollTime = 10 * time.Second
	lateness = 5 * time.Second
	// linger is for how long a key is watched after the last one who asked has gone: a waiter comes back soon.
	linger = 2 * time.Second
)

var errTooMany = backend.WithKind(
	errors.New("too many keys are watched at a time; see Options.MaxWatches"), backend.Unavailable)

// sight is what a blocking query has answered.
type sight struct {
	pair  *api.KVPair // nil if there is no key
	index uint64      // of the answer: no earlier than the last change of the key

	// rewound says that the servers' history was replaced by an earlier one, a restored backup say, so that indexes
	// seen before mean nothing.
	rewound bool
}

// settledAt is the index since when the key has been as it is, as far as known.
func (s sight) settledAt() uint64 {
	if s.pair != nil {
		return s.pair.ModifyIndex
	}
	return s.index
}

// feeds shares one blocking query per key among all who want to know of it.
type feeds struct {
	backend *Backend

	mu      sync.Mutex
	closed  bool
	feeds   map[string]*feed
	slots   int // of watches that may still begin
	running sync.WaitGroup
}

// feed follows one key. Its fields are guarded by feeds.mu.
type feed struct {
	key         string
	subscribers map[*subscriber]struct{}
	last        sight
	any         bool // last is an answer
	stop        context.CancelFunc
	idle        *time.Timer // nil while there are subscribers
}

// subscriber is told of each answer, the newest one at once, and of the end. Neither function may block or call feeds.
type subscriber struct {
	see  func(s sight)
	fail func(err error)
}

func newFeeds(b *Backend) *feeds {
	return &feeds{backend: b, feeds: map[string]*feed{}, slots: max(0, b.options.MaxWatches)}
}

// subscribe begins to tell s of key, and returns what ends it.
func (f *feeds) subscribe(ctx context.Context, key string, s *subscriber) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	follow, ok := f.feeds[key]
	if !ok {
		if follow, err = f.start(ctx, key); err != nil {
			return nil, err
		}
	}
	if follow.idle != nil {
		follow.idle.Stop()
		follow.idle = nil
	}
	follow.subscribers[s] = struct{}{}
	if follow.any {
		s.see(follow.last)
	}
	return func() { f.leave(follow, s) }, nil
}

// start begins to follow a key. The caller has f.mu.
func (f *feeds) start(ctx context.Context, key string) (*feed, error) {
	if err := f.take(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	follow := &feed{key: key, subscribers: map[*subscriber]struct{}{}, stop: stop}
	f.feeds[key] = follow
	f.running.Go(func() {
		err := f.backend.follow(ctx, key, func(s sight) bool {
			f.tell(follow, s)
			return true
		})
		f.end(follow, err)
	})
	return follow, nil
}

// take claims one of the watches that the backend may have. The caller has f.mu.
func (f *feeds) take() error {
	switch {
	case f.closed:
		return errClosed
	case f.slots == 0:
		return errTooMany
	}
	f.slots--
	return nil
}

func (f *feeds) tell(follow *feed, s sight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	follow.last, follow.any = sight{pair: s.pair, index: s.index}, true
	for subscriber := range follow.subscribers {
		subscriber.see(s)
	}
}

// end forgets a feed that has ended and tells those who are left why.
func (f *feeds) end(follow *feed, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	follow.stop()
	f.slots++
	if f.feeds[follow.key] == follow {
		delete(f.feeds, follow.key)
	}
	if f.closed {
		err = errClosed
	}
	for subscriber := range follow.subscribers {
		subscriber.fail(err)
	}
	clear(follow.subscribers)
}

func (f *feeds) leave(follow *feed, s *subscriber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(follow.subscribers, s)
	if len(follow.subscribers) > 0 || follow.idle != nil || f.feeds[follow.key] != follow {
		return
	}
	follow.idle = time.AfterFunc(linger, func() { f.dismiss(follow) })
}

// dismiss ends a feed that nobody has asked for in a while.
func (f *feeds) dismiss(follow *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(follow.subscribers) == 0 && f.feeds[follow.key] == follow {
		delete(f.feeds, follow.key)
		follow.stop()
	}
}

// close ends all feeds and waits for them.
func (f *feeds) close() {
	f.mu.Lock()
	f.closed = true
	for _, follow := range f.feeds {
		follow.stop()
	}
	f.mu.Unlock()
	f.running.Wait()
}

// follow tells of a key now and after each change, until told to end, or until an error, which also the end of ctx is.
// Each answer may be old: it is a hint, and proves nothing about the present.
func (b *Backend) follow(ctx context.Context, key string, tell func(s sight) (goOn bool)) error {
	rewound := false
	for index := uint64(0); ; {
		pair, next, err := b.poll(ctx, key, index)
		if err != nil {
			return err
		}
		if next < index {
			index, rewound = 0, true // Ask anew what is there.
			continue
		}
		index = next
		if !tell(sight{pair, index, rewound}) {
			return nil
		}
		rewound = false
	}
}

// poll makes one blocking query. With index 0 it is answered at once.
func (b *Backend) poll(ctx context.Context, key string, index uint64) (pair *api.KVPair, next uint64, err error) {
	bounded, cancel := context.WithTimeout(ctx, pollTime+lateness)
	defer cancel()
	options := queryOptions(bounded)
	options.WaitIndex, options.WaitTime = index, pollTime
	pair, meta, err := b.kv.Get(key, options)
	if err != nil {
		return nil, 0, classify(ctx, err)
	}
	return pair, max(1, meta.LastIndex), nil // 0 would never wait.
}

// AwaitRelease waits until the key is no longer as it was seen, by a blocking query that all waiters of the key share.
// It returns an error, and the caller polls, when the query fails, or beyond [Options].MaxWatches.
func (b *Backend) AwaitRelease(ctx context.Context, key, seen string) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	if seen == seenDelayed {
		<-ctx.Done() // Nothing tells of the end of a lock-delay, but when it comes is known.
		return ctx.Err()
	}
	version, err := strconv.ParseUint(seen, 10, 64)
	if err != nil {
		return nil // Seen as free, or not by us: another look is worth it.
	}
	done := make(chan error, 1)
	finish := func(err error) {
		select {
		case done <- err:
		default:
		}
	}
	leave, err := b.feeds.subscribe(ctx, b.storeKey(key), &subscriber{
		see: func(s sight) {
			if s.settledAt() > version || s.rewound {
				finish(nil)
			}
		},
		fail: finish,
	})
	if err != nil {
		return err
	}
	defer leave()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
