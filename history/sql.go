package history

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// DefaultTable is the table's name where none is given.
const DefaultTable = "leader_history"

// Placeholders is how a database writes the parameters of a statement.
type Placeholders uint8

// The ways to write parameters.
const (
	Question Placeholders = iota // ?, as MySQL, MariaDB and SQLite have it
	Dollar                       // $1, as PostgreSQL has it
)

// SQLOptions configure a [SQL]. The zero value means the defaults.
type SQLOptions struct {
	// Table is the table's name, [DefaultTable] if empty. It consists of ASCII letters, digits and underscores, with a
	// schema and a dot before it if need be, and is not quoted: an SQL keyword does not work.
	Table string
	// Placeholders is how the database writes parameters.
	Placeholders Placeholders
}

// SQL is a [Sink] on a table of an SQL database. Its statements keep to what SQLite, PostgreSQL, MySQL and MariaDB have in
// common, and are tested on SQLite, PostgreSQL and MariaDB. The table must exist, see [SQL.Migrate]. All methods may be
// called concurrently; several processes may share a table. Use [NewSQL]: the zero value is not ready.
//
// A row is a [Record]. Instants are in microseconds since 1970, 0 for one that has not come, and durations in
// microseconds, so that no time zone gets between; a fence over 2^63-1 shows as a negative number. Column written says
// when the row was, by the clock of who wrote it; it is what newest and oldest mean here. Names that differ in case or
// accents are different; MySQL and MariaDB ignore spaces at their end.
type SQL struct {
	db    *sql.DB
	table string

	insert, update string
	recent         map[selection]string // the queries
	retention      retention
}

var _ Sink = (*SQL)(nil)

// tableName is one or two identifiers that need no quotes in any database.
var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// NewSQL returns a sink on a table of db, which stays the caller's. It does no I/O; the error says what is wrong with the
// arguments. opts may be nil.
func NewSQL(db *sql.DB, opts *SQLOptions) (*SQL, error) {
	if opts == nil {
		opts = &SQLOptions{}
	}
	s := &SQL{db: db, table: cmp.Or(opts.Table, DefaultTable)}
	if db == nil {
		return nil, errors.New("history: the *sql.DB is nil")
	}
	if !tableName.MatchString(s.table) {
		return nil, fmt.Errorf("history: table name %q is not made of at most 63 ASCII letters, digits and underscores, "+
			"with an optional schema and dot before it", s.table)
	}
	if opts.Placeholders > Dollar {
		return nil, fmt.Errorf("history: Placeholders(%d) is none of this package", opts.Placeholders)
	}
	say := func(text string) string { return opts.Placeholders.in(strings.ReplaceAll(text, "{table}", s.table)) }
	s.insert, s.update = say(insertRow), say(updateRow)
	s.recent = map[selection]string{ofAll: say(selectAll), ofName: say(selectName), ofStatus: say(selectStatus)}
	s.retention = newRetention(say)
	return s, nil
}

// in writes the parameters of a statement, which has a question mark for each and no others.
func (p Placeholders) in(text string) string {
	if p == Question {
		return text
	}
	var b strings.Builder
	for i, part := range strings.Split(text, "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}

// Write implements [Sink]: all records are written in one transaction.
func (s *SQL) Write(ctx context.Context, records []Record) error {
	// Under MySQL's default, updating a row that is not there keeps others from inserting beside it.
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return fmt.Errorf("history: begin: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // done, or failed already
	now := time.Now().UnixMicro()
	for i := range records {
		if err := s.put(ctx, tx, &records[i], now+int64(i)); err != nil { // apart, so that their order is kept
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("history: commit: %w", err)
	}
	return nil
}

func (s *SQL) put(ctx context.Context, tx *sql.Tx, r *Record, written int64) error {
	state, err := stateOf(r, written)
	if err != nil {
		return err
	}
	// Column written makes every update a change, which is all that MySQL counts.
	updated, err := tx.ExecContext(ctx, s.update, append(state, r.Started.UnixMicro(), r.ID)...)
	if err != nil {
		return fmt.Errorf("history: update: %w", err)
	}
	n, err := updated.RowsAffected()
	if err != nil {
		return fmt.Errorf("history: update: %w", err)
	}
	if n > 0 {
		return nil
	}
	_, err = tx.ExecContext(ctx, s.insert, append(state, r.Started.UnixMicro(), r.ID, r.Name)...)
	if err != nil {
		return fmt.Errorf("history: insert: %w", err)
	}
	return nil
}

// stateOf lists the values of the columns that may change, in the order of the statements.
func stateOf(r *Record, written int64) ([]any, error) {
	metadata := ""
	if len(r.Metadata) > 0 {
		text, err := json.Marshal(r.Metadata)
		if err != nil {
			return nil, fmt.Errorf("history: metadata: %w", err)
		}
		metadata = string(text)
	}
	unguarded := 0
	if r.Unguarded {
		unguarded = 1
	}
	return []any{
		r.Node, r.Key, r.Slot, int64(r.Fence), r.Status.String(), //nolint:gosec // goes back the same way
		micros(r.Acquired), micros(r.Finished), r.Waited.Microseconds(), r.Held.Microseconds(), r.Attempts, unguarded,
		r.Reason, r.Holder, r.Error, r.ErrorType, r.Lost, metadata, written,
	}, nil
}

// micros is t in µs since 1970, and 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// instant is what micros made of a time.
func instant(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}

// selection is what a query is about.
type selection uint8

const (
	ofAll selection = iota
	ofName
	ofStatus
)

// Recent returns the last records of a name, or of all if it is empty; at most limit of them, newest first: those whose
// start or end was written last. Instants and durations are in whole microseconds. ctx governs the query.
func (s *SQL) Recent(ctx context.Context, name string, limit int) ([]Record, error) {
	if name == "" {
		return s.query(ctx, ofAll, limit)
	}
	return s.query(ctx, ofName, name, limit)
}

// RecentOf is [SQL.Recent] for the runs of all names that have a status.
func (s *SQL) RecentOf(ctx context.Context, status Status, limit int) ([]Record, error) {
	return s.query(ctx, ofStatus, status.String(), limit)
}

func (s *SQL) query(ctx context.Context, which selection, args ...any) ([]Record, error) {
	rows, err := s.db.QueryContext(ctx, s.recent[which], args...)
	if err != nil {
		return nil, fmt.Errorf("history: query: %w", err)
	}
	defer rows.Close()
	var list []Record
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("history: query: %w", err)
		}
		list = append(list, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("history: query: %w", err)
	}
	return list, nil
}

func scan(rows *sql.Rows) (Record, error) {
	var r Record
	var fence, acquired, finished, waited, held, started int64
	var status, metadata string
	err := rows.Scan(&r.Node, &r.Key, &r.Slot, &fence, &status, &acquired, &finished, &waited, &held, &r.Attempts,
		&r.Unguarded, &r.Reason, &r.Holder, &r.Error, &r.ErrorType, &r.Lost, &metadata, &started, &r.ID, &r.Name)
	if err != nil {
		return Record{}, err
	}
	r.Fence, r.Status = uint64(fence), statusOf(status) //nolint:gosec // as it came
	r.Started, r.Acquired, r.Finished = instant(started), instant(acquired), instant(finished)
	r.Waited, r.Held = time.Duration(waited)*time.Microsecond, time.Duration(held)*time.Microsecond
	if metadata != "" {
		err = json.Unmarshal([]byte(metadata), &r.Metadata)
	}
	return r, err
}
