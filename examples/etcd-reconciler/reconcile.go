package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/etcdleader"
)

const (
	// resync is how long the reconciler trusts that it has missed nothing.
	resync = 30 * time.Second
	// pause is how long it rests after etcd has failed.
	pause = time.Second
)

// errStale says that the lease was over when the reconciler wrote. Nothing was written.
var errStale = errors.New("refused, the lease is over")

// reconciler makes keys such as NAME/actual/web-0 as keys such as NAME/desired/web, whose value is a number, ask for.
type reconciler struct {
	client *clientv3.Client
	leases *etcdleader.Backend
	name   string
}

func (r reconciler) desired() string { return r.name + "/desired/" }
func (r reconciler) actual() string  { return r.name + "/actual/" }

// lead reconciles until the lease is over: at first, and then whenever something changes.
func (r reconciler) lead(ctx context.Context) error {
	held, trusted := leader.LeaseFrom(ctx)
	if !trusted {
		return nil
	}
	say("leads, fence %d", held.Info().Fence)
	for ctx.Err() == nil {
		revision, err := r.reconcile(ctx, held)
		if err == nil {
			err = r.awaitChange(ctx, revision)
		}
		if errors.Is(err, errStale) {
			break
		}
		if err != nil && ctx.Err() == nil {
			say("tries again soon: %v", err)
			rest(ctx)
		}
	}
	say("leads no longer: %v", context.Cause(ctx))
	return nil // WithRequeue: campaign again
}

// reconcile looks at everything, whatever has happened, and does what is left to do. It returns the revision of what it
// saw.
func (r reconciler) reconcile(ctx context.Context, held *leader.Lease) (revision int64, err error) {
	// One transaction, so that both are of the same revision.
	seen, err := r.client.Txn(ctx).Then(
		clientv3.OpGet(r.desired(), clientv3.WithPrefix()),
		clientv3.OpGet(r.actual(), clientv3.WithPrefix(), clientv3.WithKeysOnly())).Commit()
	if err != nil {
		return 0, err
	}
	missing := make(map[string]bool)
	for _, kv := range seen.Responses[0].GetResponseRange().Kvs {
		service := strings.TrimPrefix(string(kv.Key), r.desired())
		n, err := strconv.Atoi(string(kv.Value))
		if err != nil {
			say("ignores %s: %v", service, err)
		}
		for i := range n {
			missing[fmt.Sprintf("%s%s-%d", r.actual(), service, i)] = true
		}
	}
	for _, kv := range seen.Responses[1].GetResponseRange().Kvs {
		key := string(kv.Key)
		if missing[key] {
			delete(missing, key)
			continue
		}
		if err := r.write(ctx, held, clientv3.OpDelete(key)); err != nil {
			return 0, err
		}
		say("deleted %s", strings.TrimPrefix(key, r.actual()))
	}
	for _, key := range slices.Sorted(maps.Keys(missing)) {
		made := fmt.Sprintf("%s %d", held.Info().Node, held.Info().Fence)
		if err := r.write(ctx, held, clientv3.OpPut(key, made)); err != nil {
			return 0, err
		}
		say("made %s", strings.TrimPrefix(key, r.actual()))
	}
	return seen.Header.Revision, nil
}

// write changes etcd if the lease is current in the very revision of the change. No instant between a check and a write
// is left.
func (r reconciler) write(ctx context.Context, held *leader.Lease, change clientv3.Op) error {
	info := held.Info()
	answer, err := r.client.Txn(ctx).If(r.leases.Held(info.Key, info.Fence)).Then(change).Commit()
	if err != nil {
		return err
	}
	if !answer.Succeeded {
		return fmt.Errorf("fence %d: %w", info.Fence, errStale)
	}
	return nil
}

// awaitChange waits for something to happen after a revision, also by the reconciler itself, and at most for resync.
func (r reconciler) awaitChange(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), resync)
	defer cancel() // it also ends the watch
	changes := r.client.Watch(ctx, r.name+"/", clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	change, open := <-changes
	if !open {
		return nil // the time is up
	}
	if change.CompactRevision != 0 {
		return nil // too old to be told: look at everything again
	}
	return change.Err()
}

func rest(ctx context.Context) {
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
}
