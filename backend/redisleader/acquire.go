package redisleader

import (
	"context"
	"time"

	"github.com/goleader/leader/backend"
)

// withdrawTimeout bounds the clean-up after an acquisition that too few replicas have.
const withdrawTimeout = time.Second

// TryAcquire makes one attempt in one round trip; a losing one writes nothing and tells the holder.
func (b *Backend) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if err := checkTTL(req.TTL); err != nil {
		return nil, err
	}
	metadata, err := encodeMetadata(req.Metadata)
	if err != nil {
		return nil, err
	}
	keys := b.leaseKeys(req.Key)
	reply, short, err := b.runReplicated(ctx, acquireScript, keys, req.Token, micros(req.TTL), req.Owner, metadata)
	if err != nil {
		return nil, err
	}
	switch reply := reply.(type) {
	case int64:
		if reply <= 0 {
			return nil, backend.ErrLost
		}
		if short != nil {
			b.withdraw(ctx, keys[0], req.Token)
			return nil, short
		}
		return &lease{backend: b, key: keys[0], token: req.Token, fence: uint64(reply)}, nil
	case []any:
		holder, err := decodeHolder(reply)
		if err != nil {
			return nil, err
		}
		return nil, &backend.HeldError{Holder: holder}
	}
	return nil, unexpected(reply)
}

// withdraw ends a lease that was granted but not replicated. If it fails the lease's own end remains.
func (b *Backend) withdraw(ctx context.Context, key, token string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	_, _ = b.run(ctx, withdrawScript, []string{key}, token)
}

// Abandon gives up an attempt, in one round trip. The token is marked as spent also where there is no record.
func (b *Backend) Abandon(ctx context.Context, req backend.Request) error {
	_, err := b.run(ctx, abandonScript, b.leaseKeys(req.Key), req.Token, b.publish)
	return err
}

// Inspect reports the holder, in one round trip and by the server's clock.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	return b.holder(ctx, b.recordKey(key))
}

func (b *Backend) holder(ctx context.Context, key string) (backend.Holder, error) {
	reply, err := b.run(ctx, inspectScript, []string{key})
	if err != nil {
		return backend.Holder{}, err
	}
	switch reply := reply.(type) {
	case int64:
		return backend.Holder{}, nil
	case []any:
		return decodeHolder(reply)
	}
	return backend.Holder{}, unexpected(reply)
}
