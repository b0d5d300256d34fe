package sqlleader

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// sqliteSchema says what is in a row. until is 0 when the key was freed; the instants until and noted_at count by the
// clock that the column beside them names. ttl is what was left at the last write. token is "" when nobody holds the key.
const sqliteSchema = `CREATE TABLE IF NOT EXISTS {table} (
  name        TEXT    NOT NULL COLLATE BINARY PRIMARY KEY,
  format      INTEGER NOT NULL,
  token       TEXT    NOT NULL,
  spent       TEXT    NOT NULL,
  owner       TEXT    NOT NULL,
  fence       INTEGER NOT NULL,
  since       INTEGER NOT NULL,
  until       INTEGER NOT NULL,
  clock       TEXT    NOT NULL,
  ttl         INTEGER NOT NULL,
  renewals    INTEGER NOT NULL,
  metadata    TEXT    NOT NULL,
  noted_at    INTEGER NOT NULL DEFAULT 0,
  noted_clock TEXT    NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID`

// SQLite returns the dialect of SQLite 3.37 and later. It knows the errors of modernc.org/sqlite and of other drivers
// whose errors have a method Code() int, and recognises the rest by their texts, which are SQLite's own.
func SQLite() Dialect {
	return Dialect{
		Name:      "sqlite",
		Blocking:  true,
		OneWriter: true,
		Prepare:   true,
		Schema:    []string{sqliteSchema, sqliteRecordsSchema},
		Read: Statement{Text: `SELECT name, format, token, spent, owner, fence, since, until - ?3,
  until > 0 AND clock <> ?4, ttl, CASE WHEN noted_clock = ?4 THEN ?3 - noted_at ELSE 0 END, renewals, metadata
FROM {table} WHERE name >= ?1 AND name < ?2`, Args: []Arg{From, To, Now, Clock}},
		Acquire: Statement{
			Text: `INSERT INTO {table}
  (name, format, token, spent, owner, fence, since, until, clock, ttl, renewals, metadata)
SELECT ?1, 1, ?2, '', ?3, ?4, ?5, ?6 + ?7, ?8, ?7, 0, ?9
WHERE NOT EXISTS (
  SELECT 1 FROM {table} WHERE name >= ?13 AND name < ?14 AND name <> ?1 AND (token = ?2 OR spent = ?2))
ON CONFLICT (name) DO UPDATE SET token = excluded.token, owner = excluded.owner, fence = excluded.fence,
  since = excluded.since, until = excluded.until, clock = excluded.clock, ttl = excluded.ttl, renewals = 0,
  metadata = excluded.metadata, noted_at = 0, noted_clock = ''
WHERE format = 1 AND spent <> ?2 AND fence = ?10 AND renewals = ?11 AND token = ?12`,
			Args: []Arg{
				Key, Token, Owner, Fence, Wall, Now, TTL, Clock, Metadata, SeenFence, SeenRenewals, SeenToken, From, To,
			},
		},
		Renew: Statement{
			Text: `UPDATE {table} SET until = max(until, ?4 + ?5), ttl = max(until - ?4, ?5),
  renewals = renewals + 1, noted_at = 0, noted_clock = ''
WHERE name = ?1 AND format = 1 AND token = ?2 AND fence = ?3 AND until > ?4 AND clock = ?6`,
			Args: []Arg{Key, Token, Fence, Now, TTL, Clock},
		},
		Release: Statement{
			Text: `UPDATE {table} SET token = '', spent = ?2, clock = ?6, ttl = ?5,
  until = CASE WHEN ?5 > 0 AND until > ?4 THEN ?4 + ?5 ELSE 0 END, renewals = renewals + 1, noted_at = 0, noted_clock = ''
WHERE name = ?1 AND format = 1 AND fence = ?3 AND (token = ?2 OR token = '' AND spent = ?2 AND until > ?4)`,
			Args: []Arg{Key, Token, Fence, Now, TTL, Clock},
		},
		Abandon: Statement{
			Text: `INSERT INTO {table}
  (name, format, token, spent, owner, fence, since, until, clock, ttl, renewals, metadata)
VALUES (?1, 1, '', ?2, '', ?3, ?3, 0, ?5, 0, 0, '')
ON CONFLICT (name) DO UPDATE SET token = '', spent = excluded.spent, until = 0, ttl = 0, renewals = renewals + 1,
  noted_at = 0, noted_clock = ''
WHERE format = 1 AND fence > 0 AND spent <> ?2 AND (token = ?2 OR until = 0 OR until <= ?4 AND clock = ?5)`,
			Args: []Arg{Key, Token, Wall, Now, Clock},
		},
		Break: Statement{
			Text: `UPDATE {table} SET token = '', spent = CASE WHEN token = '' THEN spent ELSE token END, until = 0, ttl = 0,
  renewals = renewals + 1, noted_at = 0, noted_clock = ''
WHERE name = ?1 AND format = 1 AND fence = ?2 AND (until > ?3 OR until > 0 AND clock <> ?4)`,
			Args: []Arg{Key, Fence, Now, Clock},
		},
		Note: Statement{
			Text: `UPDATE {table} SET noted_at = ?2, noted_clock = ?3
WHERE name = ?1 AND format = 1 AND noted_clock <> ?3 AND fence = ?4 AND renewals = ?5 AND token = ?6`,
			Args: []Arg{Key, Now, Clock, SeenFence, SeenRenewals, SeenToken},
		},
		// An update that changes nothing takes the write lock, which a plain read would not.
		Guard: Statement{
			Text: `UPDATE {table} SET fence = fence
WHERE name = ?1 AND format = 1 AND token <> '' AND fence = ?2 AND until > ?3 AND clock = ?4`,
			Args: []Arg{Key, Fence, Now, Clock},
		},
		Records: sqliteRecords(),
		Sign:    "PRAGMA data_version",
		Clock:   machineClock,
		Kind:    sqliteKind,
		NoTable: func(err error) bool { return strings.Contains(err.Error(), "no such table") },
		Advise:  sqliteAdvice,
	}
}

// sqliteAdvice looks at what a connection of the handle is set to.
func sqliteAdvice(ctx context.Context, db *sql.DB) ([]string, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var journal string
	var synchronous, busy int
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal); err != nil {
		return nil, err
	}
	if err := conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous); err != nil {
		return nil, err
	}
	if err := conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&busy); err != nil {
		return nil, err
	}
	var warnings []string
	if !strings.EqualFold(journal, "wal") {
		warnings = append(warnings, "journal_mode is "+journal+", not wal: readers and writers block each other")
	}
	if synchronous == 0 {
		warnings = append(warnings, "synchronous is off: a power cut may damage the file")
	}
	if busy == 0 {
		warnings = append(warnings, "busy_timeout is 0: two writers at one time are an error for one of them")
	}
	if busy > 1000 {
		warnings = append(warnings, fmt.Sprintf("busy_timeout is %d ms: a renewal may wait so long for a writer", busy))
	}
	if db.Stats().MaxOpenConnections == 1 {
		warnings = append(warnings, "the handle has one connection: a statement that waits for a lock holds up renewals")
	}
	return warnings, nil
}
