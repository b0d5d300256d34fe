package etcdleader

import (
	"context"
	"fmt"

	"github.com/coreos/go-semver/semver"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader/backend"
)

// longHistory is from how many revisions on a store should have been compacted.
const longHistory = 1_000_000

// Advise asks one server for its version, its alarms, the members and the oldest revision, and warns of several members
// of a version in which a stuck former leader may end leases early, of a long history that was never compacted, and of
// alarms. Where the answer is refused it warns that it could not look.
func (b *Backend) Advise(ctx context.Context) ([]string, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	members, err := b.client.MemberList(ctx)
	if err != nil {
		return unread(classify(ctx, err))
	}
	var status *clientv3.StatusResponse
	for _, endpoint := range b.client.Endpoints() {
		if status, err = b.client.Status(ctx, endpoint); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil || status == nil {
		return unread(classify(ctx, err))
	}
	return advice(status.Version, len(members.Members), b.history(ctx, status), status.Errors), nil
}

// history is how many revisions the server has; 0 if the older ones were compacted, or if it does not say.
func (b *Backend) history(ctx context.Context, status *clientv3.StatusResponse) int64 {
	if _, err := b.client.Get(ctx, b.prefix, clientv3.WithRev(1), clientv3.WithCountOnly()); err != nil {
		return 0
	}
	return status.Header.Revision
}

// unread makes a warning of a refusal.
func unread(err error) ([]string, error) {
	if backend.KindOf(err) != backend.Denied {
		return nil, err
	}
	return []string{fmt.Sprintf("the server's version could not be read (%v): "+
		"check that it is at least 3.4.31 or 3.5.13", err)}, nil
}

// advice judges what a server says.
func advice(version string, members int, history int64, alarms []string) []string {
	var list []string
	if members > 1 && isOld(version) {
		list = append(list, fmt.Sprintf("etcd is of version %s: a former leader of its %d members that is stuck may end "+
			"leases early, and another node leads at once; use 3.4.31, 3.5.13 or later", version, members))
	}
	if history > longHistory {
		list = append(list, fmt.Sprintf("etcd keeps all of its %d revisions: its quota fills, and attempts become slower; "+
			"set auto-compaction-retention", history))
	}
	for _, alarm := range alarms {
		list = append(list, "etcd has an alarm: "+alarm)
	}
	return list
}

// isOld reports whether a version lacks the correction, which each line of versions got at a number of its own.
func isOld(version string) bool {
	v, err := semver.NewVersion(version)
	if err != nil {
		return false
	}
	since := semver.Version{Major: 3, Minor: 4, Patch: 31}
	if v.Major == 3 && v.Minor == 5 {
		since = semver.Version{Major: 3, Minor: 5, Patch: 13}
	}
	return v.LessThan(since)
}
