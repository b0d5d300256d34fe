package k8sleader

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Each of these is one request. What they learn of the object is remembered; after a write that failed it is in doubt.

// get reads a Lease, and returns the newest that is known of it; a missing one is a view without a state.
func (b *Backend) get(ctx context.Context, name string) (view, error) {
	asked, a := ask(ctx)
	object, err := b.api.leases.Get(asked, name, metav1.GetOptions{})
	if isMissing(err) {
		b.memory.gone(name, a)
		return view{}, nil
	}
	if err != nil {
		return view{}, b.failed(asked, "get", err)
	}
	s, err := b.note(object, a)
	if err != nil {
		return view{}, err
	}
	return b.memory.newest(s), nil
}

// create makes a Lease.
func (b *Backend) create(ctx context.Context, object *coordinationv1.Lease) (*state, error) {
	name := object.Name
	asked, a := ask(ctx)
	object, err := b.api.leases.Create(asked, object, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		b.memory.doubt(name)
		return nil, b.failed(asked, "create", err)
	}
	return b.note(object, a)
}

// update writes a Lease, on the condition that it has the version of object.
func (b *Backend) update(ctx context.Context, object *coordinationv1.Lease) (*state, error) {
	name := object.Name
	asked, a := ask(ctx)
	object, err := b.api.leases.Update(asked, object, metav1.UpdateOptions{FieldManager: fieldManager})
	if err != nil {
		b.memory.doubt(name)
		return nil, b.failed(asked, "update", err)
	}
	return b.note(object, a)
}

// patch changes a Lease, on the conditions in the patch.
func (b *Backend) patch(ctx context.Context, name string, o operations) (*state, error) {
	body, err := o.encode()
	if err != nil {
		return nil, err
	}
	asked, a := ask(ctx)
	options := metav1.PatchOptions{FieldManager: fieldManager}
	object, err := b.api.leases.Patch(asked, name, types.JSONPatchType, body, options)
	if err != nil {
		b.memory.doubt(name)
		return nil, b.failed(asked, "patch", err)
	}
	return b.note(object, a)
}

// note remembers an object that the server answered. One that cannot be read is not remembered.
func (b *Backend) note(object *coordinationv1.Lease, a *answer) (*state, error) {
	b.clock.note(a)
	name := object.Name
	s, err := read(object)
	if err != nil {
		b.memory.doubt(name)
		return nil, err
	}
	b.memory.note(s, a)
	return s, nil
}

// pageSize is how many Leases a server returns at once.
const pageSize = 500

// list reads the Leases with the labels that the selector names, in pages, until each returns false.
func (b *Backend) list(ctx context.Context, selector string, each func(object *coordinationv1.Lease, a *answer) bool) error {
	options := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		asked, a := ask(ctx)
		page, err := b.api.leases.List(asked, options)
		if err != nil {
			return b.failed(asked, "list", err)
		}
		b.clock.note(a)
		for i := range page.Items {
			if !each(&page.Items[i], a) {
				return nil
			}
		}
		if page.Continue == "" {
			return nil
		}
		options.Continue = page.Continue
	}
}
