package sqlleader

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/goleader/leader/backend"
)

// sweepEvery is after how many created records a Backend has expired ones deleted, the first time at the first.
const sweepEvery = 32

// recordStatements are [RecordStatements], prepared at their first use.
type recordStatements struct {
	read, create, replace, remove, sweep *statement

	created atomic.Uint64
}

// PutRecord implements [backend.Records]: one statement compares and sets. Where it changes nothing, the record is read,
// to report one that is unreadable. ctx governs the waits for a connection and for locks.
func (b *Backend) PutRecord(ctx context.Context, r backend.Record) (version string, err error) {
	if r.TTL < 0 {
		return "", backend.WithKind(fmt.Errorf("ttl %v is negative", r.TTL), backend.Misconfigured)
	}
	put := b.records.replace
	if r.Version == "" {
		put = b.records.create
	}
	// A random version differs from those of deleted records and needs no clock.
	version = rand.Text()
	changed, err := b.exec(ctx, put, &values{
		key: r.Key, value: append([]byte{}, r.Value...), ttl: micros(r.TTL),
		version: version, seenVersion: r.Version,
	})
	if err == nil && changed == 0 {
		err = b.unlessStored(ctx, r.Key, version)
	}
	if err != nil {
		return "", err
	}
	if r.Version == "" {
		b.sweep(ctx)
	}
	return version, nil
}

// unlessStored is [backend.ErrConflict], and nil if the record has that version: a driver may repeat a statement whose
// answer was lost with its connection.
func (b *Backend) unlessStored(ctx context.Context, key, version string) error {
	list, _, err := b.recordsIn(ctx, only(key))
	if err != nil || len(list) == 1 && list[0].Version == version {
		return err
	}
	return backend.ErrConflict
}

// GetRecords implements [backend.Records] with one query. The time is the database's, with SQLite that of this machine.
// ctx governs the waits for a connection.
func (b *Backend) GetRecords(ctx context.Context, prefix string) ([]backend.Record, time.Time, error) {
	list, now, err := b.recordsIn(ctx, startingWith(prefix))
	if err != nil {
		return nil, time.Time{}, err
	}
	return list, time.UnixMicro(now), nil
}

// DeleteRecord implements [backend.Records]: one statement compares and deletes. Where it changes nothing, the record is
// read, to tell a missing one from another version. ctx governs the waits for a connection and for locks.
func (b *Backend) DeleteRecord(ctx context.Context, r backend.Record) error {
	changed, err := b.exec(ctx, b.records.remove, &values{key: r.Key, seenVersion: r.Version})
	if err != nil || changed > 0 {
		return err
	}
	list, _, err := b.recordsIn(ctx, only(r.Key))
	if err == nil && len(list) > 0 {
		return backend.ErrConflict
	}
	return err
}

// recordRow is a row as [RecordStatements] Read returns it.
type recordRow struct {
	key, version *string // nil if there are no records
	format, left *int64
	value        []byte
	now          int64
}

// recordsIn reads those of the keys within s that exist, and the clock that judges that.
func (b *Backend) recordsIn(ctx context.Context, s span) (list []backend.Record, now int64, err error) {
	rows, err := query(ctx, b, b.records.read, &values{within: s}, func(row Row) (r recordRow, err error) {
		return r, row.Scan(&r.key, &r.format, &r.version, &r.value, &r.left, &r.now)
	})
	if err != nil {
		return nil, 0, err
	}
	for _, r := range rows {
		now = r.now
		if r.key == nil {
			continue
		}
		if *r.format != format {
			err := fmt.Errorf("record %q has format %d, this release knows %d", *r.key, *r.format, format)
			return nil, 0, backend.WithKind(err, backend.Misconfigured)
		}
		left := time.Duration(*r.left) * time.Microsecond
		list = append(list, backend.Record{Key: *r.key, Version: *r.version, Value: r.value, TTL: left})
	}
	return list, now, nil
}

// sweep deletes some expired records now and then, more than are created meanwhile. If it fails, a later one does it.
func (b *Backend) sweep(ctx context.Context) {
	if b.records.created.Add(1)%sweepEvery == 1 {
		_, _ = b.exec(ctx, b.records.sweep, &values{})
	}
}
