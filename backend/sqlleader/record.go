package sqlleader

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/goleader/leader/backend"
)

// format is the major version of a row.
const format = 1

// record is a row as [Dialect.Read] returns it: every field is a column, in this order. Without a row there is only key.
type record struct {
	key      string
	format   int64
	token    string // "" when nobody holds the key
	spent    string // the last token released or abandoned
	owner    string
	fence    int64
	since    int64 // µs since 1970
	left     int64 // µs until the end, if the row is not foreign; the key is free when it is not positive
	foreign  bool  // the end counts by a clock that cannot be compared with ours
	ttl      int64 // µs that were left at the last write
	noted    int64 // µs since a foreign row, unchanged, was noted by a process of our clock; 0 if it was not
	renewals int64
	metadata string // a JSON object or ""
}

// identity tells one state of a row from another.
type identity struct {
	fence, renewals int64
	token           string
}

func (r *record) identity() identity { return identity{r.fence, r.renewals, r.token} }

// look reads the row of key.
func (b *Backend) look(ctx context.Context, key string) (record, error) {
	rows, err := b.rows(ctx, only(key))
	if err != nil || len(rows) == 0 {
		return record{key: key}, err
	}
	return rows[0], rows[0].check()
}

// rows reads those of the keys within s, unchecked.
func (b *Backend) rows(ctx context.Context, s span) ([]record, error) {
	return query(ctx, b, b.read, &values{within: s}, func(row Row) (r record, err error) {
		return r, row.Scan(r.columns()...)
	})
}

// columns are where those of a row go, after the ones given.
func (r *record) columns(first ...any) []any {
	all := make([]any, 0, 14)
	return append(append(all, first...),
		&r.key, &r.format, &r.token, &r.spent, &r.owner, &r.fence, &r.since, &r.left, &r.foreign, &r.ttl, &r.noted,
		&r.renewals, &r.metadata)
}

// check refuses a row that another release wrote in another way, or something else than this package.
func (r *record) check() error {
	var err error
	switch {
	case r.format != format:
		err = fmt.Errorf("row %q has format %d, this release knows %d", r.key, r.format, format)
	case r.fence <= 0, r.foreign && r.ttl <= 0:
		err = fmt.Errorf("row %q is damaged: fence %d, ttl %d µs", r.key, r.fence, r.ttl)
	}
	return backend.WithKind(err, backend.Misconfigured)
}

// left returns how many µs the key stays taken, as far as this process can tell, and is not positive if it is free.
func (b *Backend) left(r *record) int64 {
	if !r.foreign {
		b.foreign.forget(r.key)
		return r.left
	}
	seen := b.foreign.since(r.key, r.identity())
	return r.ttl - max(seen, r.noted)
}

// holder describes a row whose key is taken for another left µs.
func (r *record) holder(left int64) (backend.Holder, error) {
	h := backend.Holder{
		Owner:     r.owner,
		Fence:     uint64(r.fence), //nolint:gosec // fences are positive
		Since:     time.UnixMicro(r.since),
		Remaining: time.Duration(left) * time.Microsecond,
		Kept:      r.token == "",
		Seen:      r.seen(),
	}
	if r.metadata == "" {
		return h, nil
	}
	if err := json.Unmarshal([]byte(r.metadata), &h.Metadata); err != nil {
		return backend.Holder{}, backend.WithKind(fmt.Errorf("metadata of the row: %w", err), backend.Misconfigured)
	}
	return h, nil
}

// seen names a term and whether it is still held; a renewal changes neither.
func (r *record) seen() string {
	s := strconv.FormatInt(r.fence, 10)
	if r.token == "" {
		return s + " kept"
	}
	return s
}

// encode returns metadata as the column has it.
func encode(metadata map[string]string) (string, error) {
	if len(metadata) == 0 {
		return "", nil
	}
	text, err := json.Marshal(metadata)
	return string(text), err
}
