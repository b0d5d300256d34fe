package rig

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"slices"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/internal/testserver"
)

// sqlTerm is what an SQL backend sends to acquire and to release a key.
type sqlTerm struct{ acquire, release statement }

// statement is one of the backend's statements, with the token and the fence that were recorded.
type statement struct {
	text  string
	args  []any
	token string
	fence int64
}

// with returns the arguments with another token and fence.
func (s *statement) with(token string, fence int64) []any {
	args := slices.Clone(s.args)
	for i, a := range args {
		switch a {
		case s.token:
			args[i] = token
		case s.fence:
			args[i] = fence
		}
	}
	return args
}

// recordTerm looks at what the backend sends for a term of key.
func recordTerm(t testserver.TB, h sqlleader.Handle, d sqlleader.Dialect, key string) sqlTerm {
	t.Helper()
	r := &sqlRecorder{Handle: h}
	b := sqlleader.Over(r, d, nil)
	req := backend.Request{Key: key, Token: rand.Text(), Owner: owner, TTL: lease}
	err := b.Migrate(t.Context())
	if err == nil {
		_, err = b.Inspect(t.Context(), key) // whatever is asked once
	}
	r.sent = nil
	var l backend.Lease
	if err == nil {
		l, err = b.TryAcquire(t.Context(), req)
	}
	if err == nil {
		err = l.Release(t.Context(), 0)
	}
	if err != nil {
		t.Fatalf("record a term: %v", err)
	}
	// A server may have been asked first what it knows.
	sent := slices.DeleteFunc(r.sent, func(s statement) bool { return len(s.args) == 0 })
	if len(sent) != 2 {
		t.Fatalf("a term takes %d statements, not 2", len(sent))
	}
	for i := range sent {
		sent[i].token, sent[i].fence = req.Token, int64(l.Fence()) //nolint:gosec // fences of SQL backends are positive
	}
	return sqlTerm{sent[0], sent[1]}
}

// sqlRecorder is a Handle that keeps what it was given.
type sqlRecorder struct {
	sqlleader.Handle

	sent []statement
}

func (r *sqlRecorder) Exec(ctx context.Context, c *sqlleader.Command, args []any) (sql.Result, error) {
	r.sent = append(r.sent, statement{text: c.Text, args: args})
	return r.Handle.Exec(ctx, c, args)
}

func (r *sqlRecorder) Query(
	ctx context.Context, c *sqlleader.Command, args []any, scan func(sqlleader.Row) error,
) error {
	r.sent = append(r.sent, statement{text: c.Text, args: args})
	return r.Handle.Query(ctx, c, args, scan)
}

// answer is the row that an acquisition returns.
type answer struct {
	taken, foreign          bool
	name, token, spent      string
	owner, metadata         string
	format, fence, since    int64
	left, ttl, noted, renew int64
}

func (a *answer) scan(row sqlleader.Row) error {
	return row.Scan(&a.taken, &a.name, &a.format, &a.token, &a.spent, &a.owner, &a.fence, &a.since, &a.left, &a.foreign,
		&a.ttl, &a.noted, &a.renew, &a.metadata)
}

// won is an error unless the key was taken.
func (a *answer) won(err error) error {
	if err == nil && !a.taken {
		err = errRefused
	}
	return err
}

// lost is an error unless the key was another's.
func (a *answer) lost(err error) error {
	if err == nil && a.taken {
		err = errors.New("was not refused")
	}
	return err
}
