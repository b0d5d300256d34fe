package k8sleader

import (
	"context"
	"maps"
	"math"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/goleader/leader/backend"
)

// TryAcquire makes one attempt: one request if the last thing seen of the key was that it is free, else two, and three
// if it has no object yet. A losing attempt writes nothing, and is one request.
func (b *Backend) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	if err := checkTTL(req.TTL); err != nil {
		return nil, err
	}
	name := objectName(req.Key)
	v, known := b.memory.recall(name)
	// A holder that was not followed has most likely renewed since.
	expired := v.expired() && b.watches.follows(name)
	if known && (v.state == nil || v.tenure == free || expired) {
		return b.acquire(ctx, req, v)
	}
	v, err := b.get(ctx, name)
	if err != nil {
		return nil, err
	}
	return b.acquire(ctx, req, v)
}

// acquire tries to take a Lease that was seen as v, and looks again when it has changed since.
func (b *Backend) acquire(ctx context.Context, req backend.Request, v view) (backend.Lease, error) {
	name := objectName(req.Key)
	for try := 0; ; try++ {
		l, err := b.take(ctx, req, v)
		switch {
		case err == nil:
			return l, nil
		case isMissing(err) && v.state != nil: // deleted meanwhile
		case !isConflict(err):
			return nil, err
		}
		if try == conflictRetries {
			// Each time somebody else wrote in between, so it is they who have the key, or had it a moment ago.
			return nil, &backend.HeldError{}
		}
		if v, err = b.get(ctx, name); err != nil {
			return nil, err
		}
	}
}

// take makes a Lease the request's if v shows it free, on the condition that it is still as in v.
func (b *Backend) take(ctx context.Context, req backend.Request, v view) (backend.Lease, error) {
	if v.state == nil {
		created, err := b.create(ctx, b.newObject(req.Key))
		if err != nil {
			return nil, err
		}
		v = view{state: created}
	}
	switch {
	case v.tenure == held && v.token == req.Token:
		return b.repeat(ctx, req, v)
	case v.spent == req.Token:
		return nil, backend.ErrLost
	case v.taken():
		return nil, &backend.HeldError{Holder: v.holder()}
	}
	object, err := claim(v.state, req)
	if err != nil {
		return nil, err
	}
	won, err := b.update(ctx, object)
	if err != nil {
		return nil, err
	}
	return b.newLease(won, req), nil
}

// repeat renews the lease that the token has already.
func (b *Backend) repeat(ctx context.Context, req backend.Request, v view) (backend.Lease, error) {
	now := time.Now()
	// When the end was set is not known, only that it was before now.
	life, err := b.renew(ctx, v.term(), life{stamp: v.stamp, end: now.Add(v.ttl), rv: v.rv}, req.TTL)
	if err != nil {
		return nil, err
	}
	return &lease{backend: b, term: v.term(), life: life}, nil
}

// newObject is a Lease that nobody has. Leases are created like this, so that a creation that arrives late opens no
// term, and that each fence comes from an update that is conditioned on the version that it was computed from.
func (b *Backend) newObject(key string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name:        objectName(key),
		Namespace:   b.namespace,
		Labels:      leaseLabels(key),
		Annotations: map[string]string{formatKey: format, keyKey: key, fenceKey: "0"},
	}}
}

// claim is the object with the request as its holder. Its version is the condition of the update, and every version is
// greater than all before, those of deleted objects included, so the fence is too.
func claim(s *state, req backend.Request) (*coordinationv1.Lease, error) {
	metadata, err := encodeMetadata(req.Metadata)
	if err != nil {
		return nil, err
	}
	object := owned(s.object, req.Key)
	notes := object.Annotations
	stamp := newStamp(notes[renewedKey])
	delete(notes, keptKey)
	delete(notes, metadataKey)
	if metadata != "" {
		notes[metadataKey] = metadata
	}
	notes[fenceKey] = strconv.FormatUint(max(s.fence, s.rv)+1, 10)
	notes[tokenKey] = req.Token
	notes[ownerKey] = req.Owner
	notes[ttlKey] = req.TTL.String()
	notes[renewedKey] = stamp

	now, err := time.Parse(metav1.RFC3339Micro, stamp)
	if err != nil {
		return nil, err
	}
	spec := &object.Spec
	spec.HolderIdentity = new(identityOf(req.Owner))
	spec.LeaseDurationSeconds = new(seconds(req.TTL))
	spec.LeaseTransitions = new(transitions(s))
	spec.AcquireTime = &metav1.MicroTime{Time: now}
	spec.RenewTime = &metav1.MicroTime{Time: now}
	return object, nil
}

// owned is a copy of a Lease that is marked as ours.
func owned(object *coordinationv1.Lease, key string) *coordinationv1.Lease {
	object = object.DeepCopy()
	if object.Annotations == nil {
		object.Annotations = map[string]string{}
	}
	if object.Labels == nil {
		object.Labels = map[string]string{}
	}
	maps.Copy(object.Labels, leaseLabels(key))
	object.Annotations[formatKey] = format
	object.Annotations[keyKey] = key
	if object.Annotations[fenceKey] == "" {
		object.Annotations[fenceKey] = "0"
	}
	return object
}

// transitions counts the holders after the first, as client-go does.
func transitions(s *state) int32 {
	spec := s.object.Spec
	n := value(spec.LeaseTransitions)
	if spec.AcquireTime == nil || n == math.MaxInt32 {
		return n
	}
	return n + 1
}

// Inspect reports the holder, in one request.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := b.ready(ctx); err != nil {
		return backend.Holder{}, err
	}
	v, err := b.get(ctx, objectName(key))
	if err != nil {
		return backend.Holder{}, err
	}
	return v.holder(), nil
}
