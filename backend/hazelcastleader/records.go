package hazelcastleader

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goleader/leader/backend"
)

// linger is for how long the members keep a record that has expired, if nobody has replaced it. Their own TTL counts by
// their own clocks, and only collects garbage.
const linger = time.Minute

// value is what is stored of a record.
type value struct {
	Format  int    `json:"format"`
	Version string `json:"version"` // random, so that it is never used again
	Value   []byte `json:"value"`
	Until   int64  `json:"until,omitempty"` // ms since 1970; 0 if it never ends
	Clock   int64  `json:"clock,omitempty"` // the number of the member by whose clock Until is

	raw string
}

// PutRecord compares and stores in two round trips: the record and the clock at once, and the change.
func (b *Backend) PutRecord(ctx context.Context, r backend.Record) (version string, err error) {
	if err := checkRecord(r.Key); err != nil {
		return "", err
	}
	if r.TTL < 0 || r.TTL > maxTTL {
		err := fmt.Errorf("ttl %v is not between 0 and the maximum of %v", r.TTL, maxTTL)
		return "", backend.WithKind(err, backend.Misconfigured)
	}
	for range conflicts {
		v, at, err := b.lookUp(ctx, r.Key)
		if err != nil {
			return "", err
		}
		if !v.lives(at, b.options.MaxSkew) {
			v.Version = ""
		}
		if v.Version != r.Version {
			return "", backend.ErrConflict
		}
		version, done, err := b.put(ctx, r, v.raw, at)
		if done || err != nil {
			return version, err
		}
	}
	return "", backend.ErrConflict
}

// put replaces the stored text before. done is false if there was another one meanwhile.
func (b *Backend) put(ctx context.Context, r backend.Record, before string, at instant) (string, bool, error) {
	next := value{Format: format, Version: rand.Text(), Value: r.Value}
	var ttl time.Duration
	if r.TTL > 0 {
		next.Until, next.Clock = endOf(at, r.TTL), at.node()
		ttl = r.TTL + b.options.MaxSkew + linger
	}
	text, err := json.Marshal(next)
	if err != nil {
		return "", false, err
	}
	found, err := b.records.change(ctx, r.Key, before, string(text), ttl)
	if err != nil || found != string(text) {
		return "", false, err
	}
	return next.Version, true, nil
}

// GetRecords reads a set with the clock in one round trip; the members look through the whole map. What has expired is
// deleted, in one more for each.
func (b *Backend) GetRecords(ctx context.Context, prefix string) (list []backend.Record, now time.Time, err error) {
	if err := errors.Join(checkRecord(prefix), b.ready(ctx)); err != nil {
		return nil, time.Time{}, err
	}
	reading := b.ask(ctx)
	found, err := b.records.getMatching(ctx, prefix)
	if err != nil {
		return nil, time.Time{}, err
	}
	at, err := reading.result(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	skew := b.options.MaxSkew
	for _, f := range found {
		key, _ := f.Key.(string)
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		raw, err := textOf(key, f.Value)
		if err != nil {
			return nil, time.Time{}, err
		}
		v, err := decodeValue(key, raw)
		switch {
		case err != nil:
			return nil, time.Time{}, err
		case v.lives(at, skew):
			list = append(list, backend.Record{Key: key, Version: v.Version, Value: v.Value, TTL: v.left(at, skew)})
		default:
			_, _ = b.records.change(ctx, key, raw, "", 0) // If it fails, a later one does it.
		}
	}
	return list, at.time(), nil
}

// DeleteRecord compares and deletes in two round trips.
func (b *Backend) DeleteRecord(ctx context.Context, r backend.Record) error {
	if err := checkRecord(r.Key); err != nil {
		return err
	}
	for range conflicts {
		v, at, err := b.lookUp(ctx, r.Key)
		if err != nil || v.raw == "" || !v.lives(at, b.options.MaxSkew) {
			return err
		}
		if v.Version != r.Version {
			return backend.ErrConflict
		}
		if found, err := b.records.change(ctx, r.Key, v.raw, "", 0); found == "" || err != nil {
			return err
		}
	}
	return backend.ErrConflict
}

// lookUp reads a record and the clock, in one round trip. The zero value is that of a record that does not exist.
func (b *Backend) lookUp(ctx context.Context, key string) (value, instant, error) {
	if err := b.ready(ctx); err != nil {
		return value{}, instant{}, err
	}
	reading := b.ask(ctx)
	raw, err := b.records.get(ctx, key)
	if err != nil {
		return value{}, instant{}, err
	}
	var v value
	if raw != "" {
		if v, err = decodeValue(key, raw); err != nil {
			return value{}, instant{}, err
		}
	}
	at, err := reading.result(ctx)
	return v, at, err
}

func decodeValue(key, raw string) (value, error) {
	v := value{raw: raw}
	if err := checkFormat(raw); err != nil {
		return v, unreadable(key, err)
	}
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		return v, unreadable(key, err)
	}
	if v.Version == "" || v.Until < 0 {
		return v, unreadable(key, errors.New("a field is missing or out of range"))
	}
	return v, nil
}

// left is for how long a record goes on to exist, 0 if it never ends or has ended.
func (v *value) left(at instant, skew time.Duration) time.Duration {
	return record{Until: v.Until, Clock: v.Clock}.left(at, skew)
}

// lives reports whether a record has not expired.
func (v *value) lives(at instant, skew time.Duration) bool {
	return v.Until == 0 || v.left(at, skew) > 0
}

func checkRecord(key string) error {
	if mark := strings.IndexByte(key, '!'); mark >= 0 && strings.IndexByte(key[mark:], '/') > 0 {
		return nil
	}
	return backend.WithKind(fmt.Errorf("%q is not built as name!kind/id", key), backend.Misconfigured)
}
