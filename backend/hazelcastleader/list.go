package hazelcastleader

import (
	"context"
	"iter"
	"strings"

	"github.com/goleader/leader/backend"
)

// List reads all keys that begin with prefix at once; the members look through the whole map. What is not a readable
// entry is passed over. An expired lease is listed for as long as nobody has taken its key.
func (b *Backend) List(ctx context.Context, prefix string, all bool) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) {
		if err := b.list(ctx, prefix, all, yield); err != nil {
			yield(backend.Entry{}, err)
		}
	}
}

// list returns an error that is still to be told.
func (b *Backend) list(ctx context.Context, prefix string, all bool, yield func(backend.Entry, error) bool) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	reading := b.ask(ctx)
	found, err := b.leases.getMatching(ctx, prefix)
	if err != nil {
		return err
	}
	at, err := reading.result(ctx)
	if err != nil {
		return err
	}
	for _, f := range found {
		key, _ := f.Key.(string)
		raw, _ := f.Value.(string)
		e, err := decode(key, raw)
		if err != nil || key == "" || !strings.HasPrefix(key, prefix) || e.Until == 0 {
			continue
		}
		h := e.holder(e.left(at, b.options.MaxSkew))
		if h.Remaining == 0 && (h.Kept || !all) || h.Kept && !all {
			continue
		}
		if !yield(backend.Entry{Key: key, Holder: h}, nil) {
			return nil
		}
	}
	return nil
}
