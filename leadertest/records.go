package leadertest

import (
	"bytes"
	"context"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

// sweepAt is how many records there are at least when expired ones are looked for.
const sweepAt = 1000

// records keeps what is kept beside the leases, by key, in memory. No script governs it. The zero value is empty.
type records struct {
	mu    sync.Mutex
	all   map[string]record
	given uint64 // the last version
	sweep int    // how many records there are when expired ones are looked for
}

type record struct {
	backend.Record

	until time.Time // zero for no end
}

func (r record) expired(now time.Time) bool { return !r.until.IsZero() && !now.Before(r.until) }

// PutRecord implements [backend.Records].
func (rs *records) PutRecord(ctx context.Context, r backend.Record) (version string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	now := time.Now()
	if rs.versionOf(r.Key, now) != r.Version {
		return "", backend.ErrConflict
	}
	if rs.all == nil {
		rs.all = make(map[string]record)
	}
	if len(rs.all) >= max(rs.sweep, sweepAt) {
		maps.DeleteFunc(rs.all, func(_ string, r record) bool { return r.expired(now) })
		rs.sweep = 2 * len(rs.all)
	}
	rs.given++
	r.Version, r.Value = strconv.FormatUint(rs.given, 10), bytes.Clone(r.Value)
	kept := record{Record: r}
	if r.TTL > 0 {
		kept.until = now.Add(r.TTL)
	}
	rs.all[r.Key] = kept
	return r.Version, nil
}

// GetRecords implements [backend.Records]. Its clock is the process's.
func (rs *records) GetRecords(ctx context.Context, prefix string) (list []backend.Record, now time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return nil, time.Time{}, err
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	now = time.Now()
	for key, r := range rs.all {
		if !strings.HasPrefix(key, prefix) || r.expired(now) {
			continue
		}
		found := r.Record
		found.Value = bytes.Clone(r.Value)
		if !r.until.IsZero() {
			found.TTL = r.until.Sub(now)
		}
		list = append(list, found)
	}
	return list, now, nil
}

// DeleteRecord implements [backend.Records].
func (rs *records) DeleteRecord(ctx context.Context, r backend.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	switch rs.versionOf(r.Key, time.Now()) {
	case "":
		return nil
	case r.Version:
		delete(rs.all, r.Key)
		return nil
	}
	return backend.ErrConflict
}

// versionOf is the version of a record, "" if there is none. rs.mu is held.
func (rs *records) versionOf(key string, now time.Time) string {
	if r := rs.all[key]; !r.expired(now) {
		return r.Version
	}
	return ""
}
