package k8sleader

import (
	"context"

	"github.com/goleader/leader/backend"
)

// Abandon gives up an attempt, in one request, or two if the key has to be freed or the token to be marked as spent.
// That changes the version of the object, on which whatever the attempt has sent is conditioned.
func (b *Backend) Abandon(ctx context.Context, req backend.Request) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	name := objectName(req.Key)
	b.attempts.settle(req.Token)
	for try := 0; ; try++ {
		v, err := b.get(ctx, name)
		if err != nil {
			return err
		}
		err = b.spend(ctx, req, v)
		deleted := isMissing(err) && v.state != nil
		if err == nil || try == conflictRetries || !isConflict(err) && !deleted {
			return err
		}
	}
}

// spend makes the token of a request useless on a Lease that was seen as v.
func (b *Backend) spend(ctx context.Context, req backend.Request, v view) error {
	if v.state == nil {
		object := b.newObject(req.Key)
		object.Annotations[spentKey] = req.Token
		_, err := b.create(ctx, object)
		return err
	}
	switch {
	case v.tenure == held && v.token == req.Token:
		return b.free(ctx, v.term(), v.stamp, 0, asItIs)
	case v.taken(), v.spent == req.Token:
		return nil
	}
	object := owned(v.object, req.Key)
	object.Annotations[spentKey] = req.Token
	_, err := b.update(ctx, object)
	return err
}

// Break ends the lease with the given fence, or what is kept of it, in two requests. A holder who uses client-go may
// lead for another of its retry periods before it notices.
func (b *Backend) Break(ctx context.Context, key string, fence uint64) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	name := objectName(key)
	for try := 0; ; try++ {
		v, err := b.get(ctx, name)
		if err != nil {
			return err
		}
		if !v.taken() || v.holder().Fence != fence {
			return backend.ErrConflict
		}
		object := owned(v.object, key)
		if v.token != "" {
			object.Annotations[spentKey] = v.token
		}
		delete(object.Annotations, tokenKey)
		object.Spec.HolderIdentity = nil
		_, err = b.update(ctx, object)
		switch {
		case err == nil:
			return nil
		case isMissing(err):
			return backend.ErrConflict
		case !isConflict(err) || try == conflictRetries:
			return err
		}
	}
}
