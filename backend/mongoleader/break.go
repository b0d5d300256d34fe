package mongoleader

import (
	"context"

	"github.com/goleader/leader/backend"
)

// Break ends the lease with the given fence, or what is kept of it, in two round trips.
func (b *Backend) Break(ctx context.Context, key string, fence uint64) error {
	for range conflicts {
		d, err := b.look(ctx, key)
		if err != nil {
			return err
		}
		if d == nil || d.left() == 0 || uint64(d.fence) != fence { //nolint:gosec // decode lets none below 1 pass
			return backend.ErrConflict
		}
		spent := d.token
		if spent == "" { // kept
			spent = d.spent
		}
		n, err := b.update(ctx, b.leases, and(term(key, fence), fieldToken, d.token, "$expr", live), vacate(key, spent))
		if n > 0 || err != nil {
			return err
		}
	}
	return errBusy
}
