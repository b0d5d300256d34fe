package local

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

// values has the records of [backend.Records], by set and by key. The zero value is empty.
type values struct {
	mu      sync.Mutex
	sets    map[string]map[string]value
	count   int    // of values, expired ones included
	sweep   int    // the count at which expired ones are looked for
	version uint64 // the last one given
}

// value is one record.
type value struct {
	version string
	data    []byte
	until   time.Time // zero for no end
}

func (v value) expired(now time.Time) bool { return !v.until.IsZero() && !now.Before(v.until) }

// PutRecord implements [backend.Records]. ctx is only looked at before the attempt.
func (b *Backend) PutRecord(ctx context.Context, r backend.Record) (version string, err error) {
	set, err := checkRecord(ctx, r.Key)
	if err != nil {
		return "", err
	}
	if r.TTL != 0 {
		if err := checkTTL(r.TTL); err != nil {
			return "", err
		}
	}
	b.values.mu.Lock()
	defer b.values.mu.Unlock()
	now := time.Now()
	if b.values.versionOf(set, r.Key, now) != r.Version {
		return "", backend.ErrConflict
	}
	return b.values.put(set, r, now), nil
}

// GetRecords implements [backend.Records]. ctx is only looked at before the attempt. Its clock is the process's.
func (b *Backend) GetRecords(ctx context.Context, prefix string) (list []backend.Record, now time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return nil, time.Time{}, err
	}
	set, id := cutRecord(prefix)
	if set == "" || id != "" {
		return nil, time.Time{}, notASet(prefix)
	}
	b.values.mu.Lock()
	defer b.values.mu.Unlock()
	now = time.Now()
	for key, v := range b.values.sets[set] {
		if v.expired(now) {
			continue
		}
		r := backend.Record{Key: key, Version: v.version, Value: bytes.Clone(v.data)}
		if !v.until.IsZero() {
			r.TTL = v.until.Sub(now)
		}
		list = append(list, r)
	}
	return list, now, nil
}

// DeleteRecord implements [backend.Records]. ctx is only looked at before the attempt.
func (b *Backend) DeleteRecord(ctx context.Context, r backend.Record) error {
	set, err := checkRecord(ctx, r.Key)
	if err != nil {
		return err
	}
	b.values.mu.Lock()
	defer b.values.mu.Unlock()
	switch b.values.versionOf(set, r.Key, time.Now()) {
	case "":
		return nil
	case r.Version:
		b.values.remove(set, r.Key)
		return nil
	}
	return backend.ErrConflict
}

// checkRecord returns the set of a record's key.
func checkRecord(ctx context.Context, key string) (set string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	set, id := cutRecord(key)
	if id == "" {
		return "", notASet(key)
	}
	return set, nil
}

// cutRecord cuts name!kind/id behind the slash; set is empty for anything else.
func cutRecord(key string) (set, id string) {
	mark := strings.IndexByte(key, '!')
	if mark < 0 {
		return "", ""
	}
	slash := strings.IndexByte(key[mark:], '/')
	if slash < 0 {
		return "", ""
	}
	return key[:mark+slash+1], key[mark+slash+1:]
}

func notASet(key string) error {
	return backend.WithKind(fmt.Errorf("%q is not built as name!kind/id", key), backend.Misconfigured)
}

// versionOf returns the version of a record, "" if there is none. vs.mu is held.
func (vs *values) versionOf(set, key string, now time.Time) string {
	v := vs.sets[set][key]
	if v.expired(now) {
		return ""
	}
	return v.version
}

// put stores r and returns its new version. vs.mu is held.
func (vs *values) put(set string, r backend.Record, now time.Time) string {
	if vs.count >= max(vs.sweep, sweepAt) {
		vs.removeExpired(now)
		vs.sweep = 2 * vs.count
	}
	if vs.sets == nil {
		vs.sets = make(map[string]map[string]value)
	}
	if vs.sets[set] == nil {
		vs.sets[set] = make(map[string]value)
	}
	vs.version++
	v := value{version: strconv.FormatUint(vs.version, 10), data: bytes.Clone(r.Value)}
	if r.TTL > 0 {
		v.until = now.Add(r.TTL)
	}
	vs.count -= len(vs.sets[set])
	vs.sets[set][r.Key] = v
	vs.count += len(vs.sets[set])
	return v.version
}

func (vs *values) remove(set, key string) {
	delete(vs.sets[set], key)
	vs.count--
	if len(vs.sets[set]) == 0 {
		delete(vs.sets, set)
	}
}

func (vs *values) removeExpired(now time.Time) {
	for set, list := range vs.sets {
		for key, v := range list {
			if v.expired(now) {
				vs.remove(set, key)
			}
		}
	}
}
