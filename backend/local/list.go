package local

import (
	"cmp"
	"context"
	"iter"
	"strings"
	"time"

	"github.com/goleader/leader/backend"
)

// List implements [backend.Lister] with what there is when the loop begins. Expired leases are known for some minutes.
func (b *Backend) List(ctx context.Context, prefix string, all bool) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(backend.Entry{}, err)
			return
		}
		for _, e := range b.entries(prefix, all) {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (b *Backend) entries(prefix string, all bool) []backend.Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	var list []backend.Entry
	for key, r := range b.records {
		held := !r.free(now) && r.token != ""
		past := !r.free(now) || r.token != "" // kept or expired, if it is not held
		if strings.HasPrefix(key, prefix) && (held || all && past) {
			list = append(list, backend.Entry{Key: key, Holder: r.holder(now)})
		}
	}
	return list
}

// Break implements [backend.Breaker]. ctx is only looked at before the attempt.
func (b *Backend) Break(ctx context.Context, key string, fence uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.records[key]
	if r == nil || r.free(time.Now()) || r.fence != fence {
		return backend.ErrConflict
	}
	r.end(cmp.Or(r.token, r.spent), time.Time{})
	return nil
}
