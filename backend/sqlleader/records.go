package sqlleader

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/goleader/leader/backend"
)

// sweepEvery is after how many created records a Backend has expired ones deleted, the first time at the first.
const sweepEvery = 32

// recordStatements are [RecordStatements], prepared at their first use.
type recordStatements struct {
	read, create, replace, remove, sweep statement

	created atomic.Uint64
}

// PutRecord implements [backend.Records]: one statement compares and sets. Where it changes nothing, the record is read,
// to report one that is unreadable. ctx governs the waits for a connection and for locks.
func (b *Backend) PutRecord(ctx context.Context, r backend.Record) (version string, err error) {
	if r.TTL < 0 {
		return "", backend.WithKind(fmt.Errorf("ttl %v is negative", r.TTL), backend.Misconfigured)
	}
	put := &b.records.replace
	if r.Version == "" {
		put = &b.records.create
	}
	// A random version differs from those of deleted records and needs no clock.
	version = rand.Text()
	changed, err := b.exec(ctx, put, &values{
		key: r.Key, value: append([]byte{}, r.Value...), ttl: micros(r.TTL), at: b.dialect.Clock(),
		version: version, seenVersion: r.Version,
	})
	if err == nil && !changed {
		if _, err = b.recordsIn(ctx, only(r.Key), b.dialect.Clock()); err == nil {
			err = backend.ErrConflict
		}
	}
	if err != nil {
		return "", err
	}
	if r.Version == "" {
		b.sweep(ctx)
	}
	return version, nil
}

// GetRecords implements [backend.Records] with one query. The time is this machine's, which is also that of the others
// on it. ctx governs the waits for a connection.
func (b *Backend) GetRecords(ctx context.Context, prefix string) ([]backend.Record, time.Time, error) {
	at := b.dialect.Clock()
	list, err := b.recordsIn(ctx, startingWith(prefix), at)
	if err != nil {
		return nil, time.Time{}, err
	}
	return list, time.UnixMicro(at.Wall), nil
}

// DeleteRecord implements [backend.Records]: one statement compares and deletes. Where it changes nothing, the record is
// read, to tell a missing one from another version. ctx governs the waits for a connection and for locks.
func (b *Backend) DeleteRecord(ctx context.Context, r backend.Record) error {
	at := b.dialect.Clock()
	changed, err := b.exec(ctx, &b.records.remove, &values{key: r.Key, seenVersion: r.Version, at: at})
	if err != nil || changed {
		return err
	}
	list, err := b.recordsIn(ctx, only(r.Key), at)
	if err == nil && len(list) > 0 {
		return backend.ErrConflict
	}
	return err
}

// recordsIn reads those of the keys within s that exist at that time.
func (b *Backend) recordsIn(ctx context.Context, s span, at Reading) ([]backend.Record, error) {
	var list []backend.Record
	err := b.query(ctx, &b.records.read, &values{within: s, at: at}, func(rows *sql.Rows) error {
		var r backend.Record
		var version, left int64
		if err := rows.Scan(&r.Key, &version, &r.Version, &r.Value, &left); err != nil {
			return err
		}
		if version != format {
			err := fmt.Errorf("record %q has format %d, this release knows %d", r.Key, version, format)
			return backend.WithKind(err, backend.Misconfigured)
		}
		r.TTL = time.Duration(left) * time.Microsecond
		list = append(list, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// sweep deletes some expired records now and then, more than are created meanwhile. If it fails, a later one does it.
func (b *Backend) sweep(ctx context.Context) {
	if b.records.created.Add(1)%sweepEvery == 1 {
		_, _ = b.exec(ctx, &b.records.sweep, &values{at: b.dialect.Clock()})
	}
}
