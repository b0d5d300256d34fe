package sqlleader

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
)

// Handle runs statements, each in a transaction of its own. [New] has one over a *sql.DB; a package that uses a client of
// its own gives one to [Over]. Its methods are called concurrently, and end with ctx as far as the dialect's Blocking
// says. It adds no meaning to the client's errors, except a kind.
type Handle interface {
	// Exec runs a statement that returns no rows.
	Exec(ctx context.Context, c *Command, args []any) (sql.Result, error)
	// Query runs a statement and gives each row to scan, whose error it returns.
	Query(ctx context.Context, c *Command, args []any, scan func(Row) error) error
	// Close frees what the Handle has made. Calls after it fail.
	Close() error
}

// Row is one row, as [sql.Rows] and the clients' own rows are.
type Row interface {
	Scan(dest ...any) error
}

// Command is a statement of a [Backend]. A Handle may remember something for each; they live as long as the Backend.
type Command struct {
	// Text is the SQL.
	Text string
	// Holder says that a lease depends on it, which must not be lost because others use up the connections.
	Holder bool
	// Once says that it is rare, and not worth being prepared.
	Once bool

	prepared atomic.Pointer[sql.Stmt]
}

var errClosed = errors.New("backend is closed")

// pool is the Handle over a *sql.DB. It prepares statements once, unless the driver had better do that itself.
type pool struct {
	db      *sql.DB
	prepare bool

	mu       sync.Mutex
	closed   bool
	prepared []*sql.Stmt
}

func (p *pool) Exec(ctx context.Context, c *Command, args []any) (sql.Result, error) {
	stmt, err := p.statement(ctx, c) //nolint:sqlclosecheck // Close does
	if err != nil {
		return nil, err
	}
	if stmt == nil {
		return p.db.ExecContext(ctx, c.Text, args...)
	}
	return stmt.ExecContext(ctx, args...)
}

func (p *pool) Query(ctx context.Context, c *Command, args []any, scan func(Row) error) error {
	rows, err := p.rows(ctx, c, args)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (p *pool) rows(ctx context.Context, c *Command, args []any) (*sql.Rows, error) {
	stmt, err := p.statement(ctx, c) //nolint:sqlclosecheck // Close does
	if err != nil {
		return nil, err
	}
	if stmt == nil {
		return p.db.QueryContext(ctx, c.Text, args...)
	}
	return stmt.QueryContext(ctx, args...)
}

// statement returns the prepared form of c, nil if it is not to be prepared. Two callers may prepare it at once, since
// one that waits for a connection must not hold up the other beyond its context.
func (p *pool) statement(ctx context.Context, c *Command) (*sql.Stmt, error) {
	if stmt := c.prepared.Load(); stmt != nil {
		return stmt, nil
	}
	if !p.prepare || c.Once {
		return nil, p.keep(nil)
	}
	stmt, err := p.db.PrepareContext(ctx, c.Text)
	if err != nil {
		return nil, err
	}
	if err := p.keep(stmt); err != nil {
		return nil, errors.Join(err, stmt.Close()) //nolint:sqlclosecheck // it stays open on the other path
	}
	c.prepared.Store(stmt)
	return stmt, nil
}

// keep has stmt closed with p, and is an error if p is closed already.
func (p *pool) keep(stmt *sql.Stmt) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	if stmt != nil {
		p.prepared = append(p.prepared, stmt)
	}
	return nil
}

// Close waits for statements in progress.
func (p *pool) Close() error {
	p.mu.Lock()
	p.closed = true
	prepared := p.prepared
	p.prepared = nil
	p.mu.Unlock()
	var errs []error
	for _, stmt := range prepared {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(errs...)
}
