package sqlleader

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"

	"github.com/goleader/leader/backend"
)

// state is an SQLSTATE as an error.
type state string

func (s state) Error() string    { return "state " + string(s) }
func (s state) SQLState() string { return string(s) }

func TestPostgreSQL_Errors_AreClassifiedByTheirStates(t *testing.T) {
	d := PostgreSQL()
	for _, c := range []struct {
		state    state
		kind     backend.Kind
		conflict bool
	}{
		{state: "40001", kind: backend.Unavailable, conflict: true},
		{state: "40P01", kind: backend.Unavailable, conflict: true},
		{state: "23505", conflict: true},
		{state: "40003", kind: backend.Unavailable}, // nobody knows whether it was undone
		{state: "55P03", kind: backend.Unavailable},
		{state: "25006", kind: backend.Unavailable},
		{state: "42501", kind: backend.Denied},
		{state: "42P01", kind: backend.Misconfigured},
		{state: "XX000"},
	} {
		err := fmt.Errorf("query: %w", c.state)
		if got := d.Kind(err); got != c.kind {
			t.Errorf("%s: kind %v, want %v", c.state, got, c.kind)
		}
		if got := d.Conflict(err); got != c.conflict {
			t.Errorf("%s: conflict %v", c.state, got)
		}
		if got := d.NoTable(err); got != (c.state == "42P01") {
			t.Errorf("%s: no table %v", c.state, got)
		}
	}
}

// repeating is a Handle whose driver has repeated a statement that was applied before its answer was lost: it changes
// nothing more, and the record is as it left it.
type repeating struct{ stored []any }

func (r *repeating) Exec(_ context.Context, _ *Command, args []any) (sql.Result, error) {
	if len(args) > 0 { // expired ones are swept without
		r.stored = args
	}
	return driver.RowsAffected(0), nil
}

func (r *repeating) Query(_ context.Context, _ *Command, _ []any, scan func(Row) error) error {
	return scan(r)
}

func (r *repeating) Scan(dest ...any) error {
	key, version, format, left := r.stored[0].(string), r.stored[1].(string), int64(format), int64(0)
	*dest[0].(**string), *dest[2].(**string) = &key, &version
	*dest[1].(**int64), *dest[4].(**int64) = &format, &left
	return nil
}

func (r *repeating) Close() error { return nil }

func TestBackend_PutRecord_KnowsItsOwnVersionAfterARepeat(t *testing.T) {
	for _, seen := range []string{"", "older"} {
		h := &repeating{}
		b := Over(h, PostgreSQL(), nil)
		version, err := b.PutRecord(t.Context(), backend.Record{Key: "a!run/1", Version: seen})
		if err != nil || version != h.stored[1] {
			t.Errorf("PutRecord over %q: %q, %v", seen, version, err)
		}
		// What another has stored is a conflict as ever.
		if err := b.unlessStored(t.Context(), "a!run/1", "another"); !errors.Is(err, backend.ErrConflict) {
			t.Errorf("a foreign version: %v", err)
		}
	}
}
