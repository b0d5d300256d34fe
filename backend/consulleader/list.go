package consulleader

import (
	"context"
	"iter"
	"strings"

	"github.com/goleader/leader/backend"
)

// List reads all keys below the prefix in one request; what is not a readable record is passed over. A lease that has
// expired is not listed, because its key goes with its session.
func (b *Backend) List(ctx context.Context, prefix string, all bool) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) {
		entries, err := b.entries(ctx, prefix, all)
		if err != nil {
			yield(backend.Entry{}, err)
			return
		}
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (b *Backend) entries(ctx context.Context, prefix string, all bool) ([]backend.Entry, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	pairs, _, err := b.kv.List(b.storePrefix(prefix), queryOptions(ctx))
	if err != nil {
		return nil, classify(ctx, err)
	}
	var entries []backend.Entry
	for _, pair := range pairs {
		key, ok := b.engineKey(pair.Key)
		if !ok || !strings.HasPrefix(key, prefix) || strings.Contains(key, "!") {
			continue
		}
		h, err := holderOf(pair)
		if err == nil && !h.Free() && (all || !h.Kept) {
			entries = append(entries, backend.Entry{Key: key, Holder: h})
		}
	}
	return entries, nil
}
