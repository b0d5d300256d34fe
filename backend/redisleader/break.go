package redisleader

import (
	"context"
	"strconv"

	"github.com/goleader/leader/backend"
)

// Break ends the lease with the given fence, or what is kept of it, in one round trip. After a lost answer the client
// sends it again, and then ErrConflict may also mean that the first one did it.
func (b *Backend) Break(ctx context.Context, key string, fence uint64) error {
	reply, err := b.run(ctx, breakScript, []string{b.recordKey(key)}, strconv.FormatUint(fence, 10), b.publish)
	if err == nil && reply == int64(0) {
		return backend.ErrConflict
	}
	return err
}
