package hazelcastleader

import (
	"cmp"
	"context"

	"github.com/goleader/leader/backend"
)

// Break ends the lease with the given fence, or what is kept of it, in two round trips.
func (b *Backend) Break(ctx context.Context, key string, fence uint64) error {
	e, at, err := b.look(ctx, key)
	for range conflicts {
		if err != nil {
			return err
		}
		if e.left(at, b.options.MaxSkew) == 0 || e.Fence != fence {
			return backend.ErrConflict
		}
		var changed bool
		if e, changed, err = b.change(ctx, key, e, e.freed()); changed {
			return nil
		}
	}
	return cmp.Or(err, errBusy)
}
