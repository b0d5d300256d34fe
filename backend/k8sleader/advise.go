package k8sleader

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/goleader/leader/backend"
)

// enoughRequests is the limit of requests a second below which a client holds up renewals.
const enoughRequests = 20

// Advise warns of a client that may send few requests a second, and of verbs without which less works. It reads one
// Lease, opens a watch and tries a deletion that is not made.
func (b *Backend) Advise(ctx context.Context) ([]string, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	var warnings []string
	if b.api.limiter != nil && b.api.limiter.QPS() < enoughRequests {
		warnings = append(warnings, fmt.Sprintf("the client sends at most %g requests a second, so that renewals of many "+
			"leases, and whatever else it is used for, hold up each other; raise QPS and Burst in its rest.Config",
			b.api.limiter.QPS()))
	}
	for _, verb := range []struct {
		name    string
		try     func(ctx context.Context) error
		without string
	}{
		{"watch", b.tryWatch, "waiters poll, and a lost lease is noticed at its next renewal"},
		{"list", b.tryList, "groups, strategic election, run keys and lists do not work"},
		{"delete", b.tryDelete, "strategic election and run keys do not work"},
	} {
		asked, _ := ask(ctx)
		err := b.failed(asked, verb.name, verb.try(asked))
		switch {
		case err == nil, apierrors.IsNotFound(err):
		case backend.KindOf(err) == backend.Denied:
			warnings = append(warnings, fmt.Sprintf("the verb %q on leases.coordination.k8s.io in namespace %q is not "+
				"granted, or for some names only: %s", verb.name, b.namespace, verb.without))
		default:
			return nil, err
		}
	}
	return warnings, nil
}

func (b *Backend) tryWatch(ctx context.Context) error {
	stream, err := b.api.leases.Watch(ctx, metav1.ListOptions{TimeoutSeconds: new(int64(1))})
	if err == nil {
		stream.Stop()
	}
	return err
}

func (b *Backend) tryList(ctx context.Context) error {
	_, err := b.api.leases.List(ctx, metav1.ListOptions{Limit: 1})
	return err
}

func (b *Backend) tryDelete(ctx context.Context) error {
	// No key has a name that ends like this.
	return b.api.leases.Delete(ctx, "advise"+hashMark+"none", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
}
