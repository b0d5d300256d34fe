package consulleader

import (
	"context"
	"iter"

	"github.com/goleader/leader/backend"
)

// Watch follows the key by a blocking query of its own, which counts against [Options].MaxWatches.
func (b *Backend) Watch(ctx context.Context, key string) iter.Seq2[backend.Holder, error] {
	return func(yield func(backend.Holder, error) bool) {
		left := false
		err := b.watch(ctx, b.storeKey(key), func(h backend.Holder) bool {
			left = !yield(h, nil)
			return !left
		})
		if err != nil && !left {
			yield(backend.Holder{}, err)
		}
	}
}

func (b *Backend) watch(ctx context.Context, key string, show func(h backend.Holder) bool) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	b.feeds.mu.Lock()
	err := b.feeds.take()
	b.feeds.mu.Unlock()
	if err != nil {
		return err
	}
	defer b.feeds.give()
	var shown uint64 // the version of the key
	var unreadable error
	err = b.follow(ctx, key, func(s sight) bool {
		version := s.settledAt()
		if s.pair == nil {
			version = 1 // what passes beside a missing key is no change of it
		}
		if version == shown {
			return true
		}
		shown = version
		var h backend.Holder
		if h, unreadable = holderOf(s.pair); unreadable != nil {
			return false
		}
		return show(h)
	})
	if unreadable != nil {
		return unreadable
	}
	return err
}

// give returns a watch that has ended.
func (f *feeds) give() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slots++
}
