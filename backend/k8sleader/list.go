package k8sleader

import (
	"context"
	"iter"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/goleader/leader/backend"
)

// List reads the Leases of the namespace that were ever held here, 500 in each request. What cannot be read is passed
// over. The lease of a dead holder that this backend sees for the first time is listed as held for another lease.
func (b *Backend) List(ctx context.Context, prefix string, all bool) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) {
		err := b.ready(ctx)
		if err == nil {
			err = b.list(ctx, kindLabel+"="+leaseKind, func(object *coordinationv1.Lease, a *answer) bool {
				e, ok := b.listed(object, a, prefix, all)
				return !ok || yield(e, nil)
			})
		}
		if err != nil {
			yield(backend.Entry{}, err)
		}
	}
}

// listed is the entry of a Lease, if it is asked for.
func (b *Backend) listed(object *coordinationv1.Lease, a *answer, prefix string, all bool) (e backend.Entry, ok bool) {
	key := object.Annotations[keyKey]
	if !strings.HasPrefix(key, prefix) || objectName(key) != object.Name {
		return backend.Entry{}, false
	}
	s, err := b.note(object, a)
	if err != nil {
		return backend.Entry{}, false
	}
	v := b.memory.newest(s)
	switch {
	case v.state == nil || v.tenure == free:
		return backend.Entry{}, false
	case !all && (v.tenure == kept || !v.taken()):
		return backend.Entry{}, false
	}
	return backend.Entry{Key: key, Holder: v.state.holder(max(v.remaining, 0))}, true
}
