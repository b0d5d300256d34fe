package etcdleader

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader/backend"
)

// PutRecord compares and stores in one round trip, and one more if the record has a TTL, for a lease. The version is the
// key's revision.
func (b *Backend) PutRecord(ctx context.Context, r backend.Record) (version string, err error) {
	if err := b.checkRecord(ctx, r); err != nil {
		return "", err
	}
	stored, ok := parseVersion(r.Version)
	if !ok {
		return "", backend.ErrConflict
	}
	var opts []clientv3.OpOption
	var p *pooled
	if r.TTL > 0 {
		if p, err = b.leases.grantNew(ctx, seconds(r.TTL)); err != nil {
			return "", classify(ctx, err)
		}
		opts = append(opts, clientv3.WithLease(clientv3.LeaseID(p.id)))
	}
	place := b.recordPlace(r.Key)
	unchanged := clientv3.Compare(clientv3.ModRevision(place), "=", stored)
	answer, err := b.kv.Txn(ctx).If(unchanged).Then(clientv3.OpPut(place, encodeRecord(r), opts...)).Commit()
	switch {
	case err != nil:
		return "", classify(ctx, err) // The lease may have the record, and ends by itself.
	case !answer.Succeeded:
		if p != nil {
			b.leases.poison(ctx, p, "")
		}
		return "", backend.ErrConflict
	}
	return strconv.FormatInt(answer.Header.Revision, 10), nil
}

// GetRecords reads a set. etcd does not tell the time. The TTL of a record is the one of its last put: asking for what
// is left would take a request for each.
func (b *Backend) GetRecords(ctx context.Context, prefix string) (list []backend.Record, now time.Time, err error) {
	if !isSet(prefix) {
		return nil, time.Time{}, notARecord(prefix)
	}
	err = b.eachKey(ctx, b.recordPlace(prefix), func(kv *mvccpb.KeyValue) bool {
		if r, ok := decodeRecord(kv); ok {
			r.Key = strings.TrimPrefix(string(kv.Key), b.recordPlace(""))
			list = append(list, r)
		}
		return true
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	return list, time.Time{}, nil
}

// DeleteRecord compares and deletes in one round trip.
func (b *Backend) DeleteRecord(ctx context.Context, r backend.Record) error {
	if err := b.checkRecord(ctx, r); err != nil {
		return err
	}
	place := b.recordPlace(r.Key)
	stored, ok := parseVersion(r.Version)
	if !ok {
		stored = -1 // which no key has
	}
	unchanged := clientv3.Compare(clientv3.ModRevision(place), "=", stored)
	answer, err := b.kv.Txn(ctx).If(unchanged).Then(clientv3.OpDelete(place)).
		Else(clientv3.OpGet(place, clientv3.WithCountOnly())).Commit()
	switch {
	case err != nil:
		return classify(ctx, err)
	case !answer.Succeeded && answer.Responses[0].GetResponseRange().Count > 0:
		return backend.ErrConflict
	}
	return nil
}

// recordPlace is where the record of a key of the engine is kept. No key of a lease begins with the mark.
func (b *Backend) recordPlace(key string) string { return b.prefix + "!" + key }

func (b *Backend) checkRecord(ctx context.Context, r backend.Record) error {
	id, ok := cutRecord(r.Key)
	if !ok || id == "" {
		return notARecord(r.Key)
	}
	if r.TTL != 0 {
		if err := checkTTL(r.TTL); err != nil {
			return err
		}
	}
	return b.ready(ctx)
}

// cutRecord returns what follows the slash in name!kind/id, which may be empty.
func cutRecord(key string) (id string, ok bool) {
	mark := strings.IndexByte(key, '!')
	if mark <= 0 {
		return "", false
	}
	_, id, ok = strings.Cut(key[mark:], "/")
	return id, ok
}

func isSet(prefix string) bool {
	id, ok := cutRecord(prefix)
	return ok && id == ""
}

func notARecord(key string) error {
	return backend.WithKind(fmt.Errorf("%q is not built as name!kind/id", key), backend.Misconfigured)
}

// parseVersion reads a version as PutRecord writes it; "" is that of a missing record.
func parseVersion(version string) (revision int64, ok bool) {
	if version == "" {
		return 0, true
	}
	revision, err := strconv.ParseInt(version, 10, 64)
	return revision, err == nil && revision > 0 && strconv.FormatInt(revision, 10) == version
}

// encodeRecord writes the format, the TTL in ms, 0 for none, and the value.
func encodeRecord(r backend.Record) string {
	ms := (r.TTL + time.Millisecond - 1) / time.Millisecond
	return fmt.Sprintf("%d %d %s", format, ms, r.Value)
}

// decodeRecord reads what encodeRecord writes. Anything else is none of ours.
func decodeRecord(kv *mvccpb.KeyValue) (backend.Record, bool) {
	major, rest, ok := bytes.Cut(kv.Value, []byte(" "))
	if !ok || string(major) != strconv.Itoa(format) {
		return backend.Record{}, false
	}
	ms, value, ok := bytes.Cut(rest, []byte(" "))
	ttl, err := strconv.ParseInt(string(ms), 10, 64)
	if !ok || err != nil || ttl < 0 {
		return backend.Record{}, false
	}
	return backend.Record{
		Version: strconv.FormatInt(kv.ModRevision, 10),
		Value:   bytes.Clone(value),
		TTL:     time.Duration(ttl) * time.Millisecond,
	}, true
}
