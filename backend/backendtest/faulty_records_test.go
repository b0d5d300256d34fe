package backendtest

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goleader/leader/backend"
)

// A faultyValue is a record beside the leases. It has ended once until has passed, unless that is zero.
type faultyValue struct {
	version string
	value   []byte
	until   time.Time
}

var faultyStart = time.Now()

// value returns the record of key, nil if there is none. s.mu is held.
func (s *faultyStore) value(key string) *faultyValue {
	v := s.values[key]
	if v == nil || v.until.IsZero() || s.sin == "records never expire" {
		return v
	}
	end := v.until
	if s.sin == "records expire early" {
		end = end.Add(-mutantTTL * 3 / 4)
	}
	if !time.Now().Before(end) {
		return nil
	}
	return v
}

// idOf is the store's own name of a record.
func (s *faultyStore) idOf(key string) string {
	set, id := setOf(key), key[len(setOf(key)):]
	switch s.sin {
	case "replaces symbols in ids":
		id = strings.NewReplacer("%", "_", "*", "_", ":", "_").Replace(id)
	case "folds case in ids":
		id = strings.ToLower(id)
	}
	return set + id
}

func (d *faultyDriver) PutRecord(ctx context.Context, r backend.Record) (string, error) {
	if err := d.enter(ctx); err != nil && d.sin != "ignores the context of a put" {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := d.idOf(r.Key)
	old := d.value(key)
	if d.sin == "looks before it puts" {
		d.mu.Unlock()
		time.Sleep(time.Millisecond)
		d.mu.Lock()
	}
	if !d.mayPut(old, key, r) {
		return "", backend.ErrConflict
	}
	v := &faultyValue{version: d.nextVersion(old, r), value: d.valueOf(r)}
	if r.TTL > 0 || d.sin == "a record without a TTL ends at once" {
		v.until = time.Now().Add(r.TTL)
	}
	if old != nil && d.sin == "keeps the first TTL of a record" {
		v.until = old.until
	}
	d.values[key] = v
	return v.version, nil
}

// mayPut compares the version. d.mu is held.
func (d *faultyDriver) mayPut(old *faultyValue, key string, r backend.Record) bool {
	switch {
	case d.sin == "puts without comparing" && old != nil && r.Version != "",
		d.sin == "creates over an existing record" && r.Version == "",
		d.sin == "puts what is missing" && old == nil:
		return true
	case d.sin == "an expired record is in the way" && old == nil && d.values[key] != nil:
		return false
	case d.sin == "replaces an expired record" && d.values[key] != nil:
		return d.values[key].version == r.Version || old == nil && r.Version == ""
	case old == nil:
		return r.Version == ""
	}
	return old.version == r.Version
}

func (d *faultyDriver) nextVersion(old *faultyValue, r backend.Record) string {
	switch d.sin {
	case "counts versions anew after a deletion":
		if old == nil {
			return "1"
		}
		n, _ := strconv.Atoi(old.version)
		return strconv.Itoa(n + 1)
	case "takes the value for the version":
		return fmt.Sprintf("%x.", r.Value)
	}
	d.puts++
	return "v" + strconv.Itoa(d.puts)
}

func (d *faultyDriver) valueOf(r backend.Record) []byte {
	switch d.sin {
	case "stores values as text":
		if !utf8.Valid(r.Value) {
			return bytes.ToValidUTF8(r.Value, []byte("?"))
		}
	case "cuts long values":
		return bytes.Clone(r.Value[:min(len(r.Value), 8<<10)])
	case "shares the bytes of a value":
		return r.Value
	}
	return bytes.Clone(r.Value)
}

func (d *faultyDriver) GetRecords(ctx context.Context, set string) ([]backend.Record, time.Time, error) {
	if err := d.enter(ctx); err != nil {
		return nil, time.Time{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []backend.Record
	for key := range d.values {
		v := d.value(key)
		if v == nil || !d.inSet(key, set) {
			continue
		}
		r := backend.Record{Key: key, Version: v.version, Value: bytes.Clone(v.value)}
		if d.sin == "shares the bytes of a value" {
			r.Value = v.value
		}
		if !v.until.IsZero() && d.sin != "shows no TTL" {
			r.TTL = max(time.Until(v.until), 1)
		}
		list = append(list, r)
		if d.sin == "returns the first page of a set" && len(list) == 100 {
			break
		}
	}
	now := time.Now()
	if d.sin == "the clock of records stands still" {
		now = faultyStart
	}
	return list, now, nil
}

// inSet reports whether a record is of a set.
func (d *faultyDriver) inSet(key, set string) bool {
	switch d.sin {
	case "misreads records of another set":
		_, kind, _ := strings.Cut(set, "!")
		_, of, _ := strings.Cut(key, "!")
		return strings.HasPrefix(key, set[:1]) && strings.HasPrefix(of, kind)
	case "takes a set for a pattern":
		return like(key, set)
	}
	return strings.HasPrefix(key, set)
}

// like reports whether s begins with a pattern in which "_" is any character and case does not count.
func like(s, pattern string) bool {
	if len(s) < len(pattern) {
		return false
	}
	for i := range len(pattern) {
		if pattern[i] != '_' && !strings.EqualFold(pattern[i:i+1], s[i:i+1]) {
			return false
		}
	}
	return true
}

func (d *faultyDriver) DeleteRecord(ctx context.Context, r backend.Record) error {
	if err := d.enter(ctx); err != nil && d.sin != "ignores the context of a deletion" {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := d.idOf(r.Key)
	old := d.value(key)
	switch {
	case old == nil && d.sin == "fails to delete what is missing":
		return backend.ErrConflict
	case old == nil:
		return nil
	case old.version != r.Version && d.sin != "deletes without comparing":
		return backend.ErrConflict
	}
	delete(d.values, key)
	return nil
}
