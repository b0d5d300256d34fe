package dynamoleader

import (
	"context"

	"github.com/goleader/leader/backend"
)

// Abandon gives up an attempt, in one request, and a second if the key is not free and not the attempt's.
func (b *Backend) Abandon(ctx context.Context, req backend.Request) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	b.attempts.settle(req.Token)
	now, _, err := b.serverTime(ctx, leasePlace(req.Key))
	if err != nil {
		return err
	}
	c := b.newChange(0)
	c.params[":token"] = text(req.Token)
	c.params[":floor"] = number(now.UnixMicro())
	for try := 0; ; try++ {
		err := b.end(ctx, req.Key, spend, c)
		changed, ok := refusal(err)
		if !ok {
			return err
		}
		v, err := b.after(ctx, req.Key, changed)
		if err != nil {
			return err
		}
		if v.taken() && v.token != req.Token || v.state != nil && v.spent == req.Token {
			return nil
		}
		if v.expired() {
			// The attempt may be one that takes over, so that it has to be refused as well.
			c.see(v.state)
			_, err = b.change(ctx, req.Key, mark, c)
			if _, ok := refusal(err); !ok {
				return err
			}
		}
		if try == conflictRetries {
			return errBusy
		}
	}
}

// Break ends the lease with the given fence, or what is kept of it, in two requests.
func (b *Backend) Break(ctx context.Context, key string, fence uint64) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	v, err := b.look(ctx, key)
	if err != nil {
		return err
	}
	if !v.taken() || v.fence != fence {
		return backend.ErrConflict
	}
	c := b.newChange(0)
	c.params[":fence"] = number(fence)
	err = b.end(ctx, key, breaking, c)
	if _, ok := refusal(err); ok {
		return backend.ErrConflict
	}
	return err
}
