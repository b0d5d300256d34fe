package sqlleader

import (
	"context"
	"iter"
	"strings"

	"github.com/goleader/leader/backend"
)

// List implements [backend.Lister] with one query, of which it keeps no connection while it yields. A row that is
// unreadable does not hide the others; the first such error is yielded last. ctx governs the waits for a connection.
func (b *Backend) List(ctx context.Context, prefix string, all bool) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) {
		rows, failed := b.rows(ctx, startingWith(prefix))
		for i := range rows {
			e, shown, err := b.entry(&rows[i], all)
			if err != nil {
				if failed == nil {
					failed = err
				}
				continue
			}
			// The span is wider than a prefix that ends within a character.
			if shown && strings.HasPrefix(e.Key, prefix) && !yield(e, nil) {
				return
			}
		}
		if failed != nil {
			yield(backend.Entry{}, failed)
		}
	}
}

// entry describes a row and reports whether it belongs into a list: not if it was released and is not kept any more.
func (b *Backend) entry(r *record, all bool) (e backend.Entry, shown bool, err error) {
	if err := r.check(); err != nil {
		return e, false, err
	}
	left := max(b.left(r), 0)
	kept, expired := r.token == "" && left > 0, r.token != "" && left == 0
	if r.token == "" && !kept || !all && (kept || expired) {
		return e, false, nil
	}
	h, err := r.holder(left)
	return backend.Entry{Key: r.key, Holder: h}, true, err
}

// Break implements [backend.Breaker] with one statement. Where it changes nothing, the row is read, to report one that
// is unreadable. ctx governs the waits for a connection and for locks.
func (b *Backend) Break(ctx context.Context, key string, fence uint64) error {
	v := &values{key: key, fence: int64(fence)} //nolint:gosec // one that does not fit matches no row
	ended, err := b.exec(ctx, b.end, v)
	if err != nil || ended > 0 {
		return err
	}
	if _, err := b.look(ctx, key); err != nil {
		return err
	}
	return backend.ErrConflict
}
