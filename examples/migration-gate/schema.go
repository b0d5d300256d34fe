package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/pgleader"
)

//go:embed migrations/*.sql
var embedded embed.FS

// migration is one step, a file such as 0002_balance.sql.
type migration struct {
	version int
	name    string
	text    string
}

// load reads the migrations of a folder, or those of the program, in their order.
func load(folder string) ([]migration, error) {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return nil, err
	}
	if folder != "" {
		files = os.DirFS(folder)
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	var list []migration
	for _, name := range names {
		m := migration{name: name}
		if _, err := fmt.Sscanf(name, "%d_", &m.version); err != nil {
			return nil, fmt.Errorf("%s: want a name like 0001_what.sql: %w", name, err)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		m.text = string(text)
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b migration) int { return cmp.Compare(a.version, b.version) })
	return list, nil
}

// schema is the state of a database. Table schema_version says which migrations it has seen.
type schema struct {
	pool       *pgxpool.Pool
	backend    *pgleader.Backend
	migrations []migration
}

func (s schema) newest() (version int) {
	for _, m := range s.migrations {
		version = max(version, m.version)
	}
	return version
}

// after returns the migrations that a database of that version lacks.
func (s schema) after(version int) []migration {
	return slices.DeleteFunc(slices.Clone(s.migrations), func(m migration) bool { return m.version <= version })
}

// version is that of the last migration, 0 if there was none.
func (s schema) version(ctx context.Context) (version int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM schema_version`).Scan(&version)
	const undefinedTable = "42P01"
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == undefinedTable {
		return 0, nil
	}
	return version, err
}

// apply does one migration in one transaction: all of it, and its line in schema_version, or nothing. Guard comes last.
// It lets the transaction commit only if the lease is current then, so a process that was frozen cannot migrate a
// database that another has gone on with.
func (s schema) apply(ctx context.Context, held *leader.Lease, m migration) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, m.text); err != nil {
			return err
		}
		// Only the holder of the lease creates it: two that do so at once would collide.
		_, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS schema_version (
			version int PRIMARY KEY, name text NOT NULL, fence bigint NOT NULL, applied timestamptz NOT NULL DEFAULT now())`)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO schema_version (version, name, fence) VALUES ($1, $2, $3)`,
			m.version, m.name, int64(held.Info().Fence)) //nolint:gosec // a fence fits, it starts at a time in µs
		if err != nil {
			return err
		}
		return s.backend.Guard(ctx, tx, held)
	})
}
