package consulleader

import (
	"context"

	"github.com/goleader/leader/backend"
)

// Break deletes the key of the lease with the given fence, or what is kept of it, in two round trips. The session is
// left to its holder. After a lost answer ErrConflict may also mean that an earlier call did it.
func (b *Backend) Break(ctx context.Context, key string, fence uint64) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	stored := b.storeKey(key)
	for range conflicts {
		pair, err := b.readProof(ctx, stored)
		if err != nil {
			return err
		}
		h, err := holderOf(pair)
		if err != nil {
			return err
		}
		if h.Free() || h.Fence != fence {
			return backend.ErrConflict
		}
		if done, err := b.deleteIf(ctx, stored, pair.ModifyIndex); err != nil || done {
			return err
		}
	}
	return errContended
}
