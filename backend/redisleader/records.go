package redisleader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goleader/leader/backend"
)

// PutRecord compares and stores in one round trip. A version is a random number, so that it is never used again, and
// that the server recognises a request that the client sends a second time. With MinReplicas set, an error that says
// that too few replicas have the record leaves it stored.
func (b *Backend) PutRecord(ctx context.Context, r backend.Record) (version string, err error) {
	set, field, err := b.recordPlace(r.Key)
	if err != nil {
		return "", err
	}
	if r.TTL != 0 {
		if err := checkTTL(r.TTL); err != nil {
			return "", err
		}
	}
	version = rand.Text()
	reply, short, err := b.runReplicated(ctx, putScript, []string{set}, field, r.Version, version, micros(r.TTL), r.Value)
	switch {
	case err != nil:
		return "", err
	case reply == int64(0):
		return "", backend.ErrConflict
	case short != nil:
		return "", short
	}
	return version, nil
}

// GetRecords reads a set in one round trip, with the server's clock. It deletes what has expired.
func (b *Backend) GetRecords(ctx context.Context, prefix string) (list []backend.Record, now time.Time, err error) {
	set, field, err := b.setPlace(prefix)
	if err == nil && field != "/" {
		err = notARecord(prefix)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	reply, err := b.run(ctx, getScript, []string{set})
	if err != nil {
		return nil, time.Time{}, err
	}
	return decodeRecords(reply, strings.TrimSuffix(prefix, "/"))
}

// DeleteRecord compares and deletes in one round trip.
func (b *Backend) DeleteRecord(ctx context.Context, r backend.Record) error {
	set, field, err := b.recordPlace(r.Key)
	if err != nil {
		return err
	}
	reply, err := b.run(ctx, deleteScript, []string{set}, field, r.Version)
	if err == nil && reply == int64(0) {
		return backend.ErrConflict
	}
	return err
}

// recordPlace returns the key of the hash, and the field, that has the record of key.
func (b *Backend) recordPlace(key string) (set, field string, err error) {
	set, field, err = b.setPlace(key)
	if err == nil && field == "/" {
		err = notARecord(key)
	}
	return set, field, err
}

// setPlace cuts name!kind/id before the slash; the id may be empty.
func (b *Backend) setPlace(key string) (set, field string, err error) {
	mark := strings.IndexByte(key, '!')
	if mark < 0 {
		return "", "", notARecord(key)
	}
	slash := strings.IndexByte(key[mark:], '/')
	if slash < 0 {
		return "", "", notARecord(key)
	}
	return b.recordKey(key[:mark+slash]), key[mark+slash:], nil
}

func notARecord(key string) error {
	return backend.WithKind(fmt.Errorf("%q is not built as name!kind/id", key), backend.Misconfigured)
}

// decodeRecords reads the reply of lua/get.lua for the set whose keys begin with set and a slash.
func decodeRecords(reply any, set string) ([]backend.Record, time.Time, error) {
	items, ok := reply.([]any)
	if !ok || len(items)%2 == 0 {
		return nil, time.Time{}, unexpected(reply)
	}
	now, ok := items[0].(int64)
	if !ok {
		return nil, time.Time{}, unexpected(reply)
	}
	list := make([]backend.Record, 0, len(items)/2)
	for i := 1; i < len(items); i += 2 {
		field, _ := items[i].(string)
		stored, _ := items[i+1].(string)
		r, err := decodeRecord(stored, now)
		if err != nil || field == "" {
			return nil, time.Time{}, errors.Join(unexpected(field), err)
		}
		r.Key = set + field
		list = append(list, r)
	}
	return list, time.UnixMicro(now), nil
}

// decodeRecord reads what lua/put.lua stores; now is in µs.
func decodeRecord(stored string, now int64) (backend.Record, error) {
	version, rest, _ := strings.Cut(stored, " ")
	end, value, ok := strings.Cut(rest, " ")
	ends, err := strconv.ParseInt(end, 10, 64)
	if !ok || err != nil || version == "" {
		return backend.Record{}, unexpected(stored)
	}
	r := backend.Record{Version: version, Value: []byte(value)}
	if ends > 0 {
		r.TTL = time.Duration(ends-now) * time.Microsecond
	}
	return r, nil
}
