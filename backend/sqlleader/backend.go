package sqlleader

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goleader/leader/backend"
)

// minTTL is the shortest lease that SQL databases keep well.
const minTTL = 10 * time.Millisecond

// DefaultTable is the table's name where none is given.
const DefaultTable = "leader_leases"

// Options configure a [Backend]. The zero value means the defaults.
type Options struct {
	// Table is the table's name, [DefaultTable] if empty. It consists of at most 55 ASCII letters, digits and underscores,
	// with a schema and a dot before it if need be, and is not quoted: an SQL keyword does not work. The second table, of
	// records, has the same name with _records behind it.
	//
	// Without a schema each connection finds it in its own search_path or database. Name the schema where those may differ,
	// because the tables of two schemas know nothing of each other's leases.
	Table string
	// CreateTable makes a statement that finds no table create both, as [Backend.Migrate] does.
	CreateTable bool
}

// Backend is a [backend.Driver] on a table of an SQL database. All methods may be called concurrently. Use [New]: the
// zero value is not ready.
type Backend struct {
	handle   Handle
	db       *sql.DB // of the handle; nil if it has none
	dialect  Dialect
	table    string
	migrates bool // a missing table is created
	invalid  error

	read, take, create, acquire, renew, release, abandon, end, mark, guard *statement
	records                                                                recordStatements
	schema                                                                 []*Command

	takes    atomic.Pointer[bool] // what the query TakeIf said
	writer   turn                 // to write; nil if there may be many writers
	retrier  turn                 // to try for a slot again
	foreign  observations
	awaiting waiters
}

var (
	_ backend.Driver       = (*Backend)(nil)
	_ backend.Limited      = (*Backend)(nil)
	_ backend.Checker      = (*Backend)(nil)
	_ backend.Advisor      = (*Backend)(nil)
	_ backend.Waiter       = (*Backend)(nil)
	_ backend.SlotAcquirer = (*Backend)(nil)
	_ backend.Lister       = (*Backend)(nil)
	_ backend.Breaker      = (*Backend)(nil)
	_ backend.Records      = (*Backend)(nil)
)

// New returns a driver that works on a table of db, which stays the caller's and must not be closed before the Backend
// is. It does no I/O. opts may be nil.
func New(db *sql.DB, d Dialect, opts *Options) *Backend {
	b := Over(&pool{db: db, prepare: d.Prepare}, d, opts)
	b.db = db
	if db == nil {
		b.invalid = errors.Join(b.invalid, errors.New("the *sql.DB is nil"))
	}
	return b
}

// Over returns a driver that works on a table through h, which it closes with itself. It does no I/O. opts may be nil.
func Over(h Handle, d Dialect, opts *Options) *Backend {
	if opts == nil {
		opts = &Options{}
	}
	b := &Backend{handle: h, dialect: d, table: cmp.Or(opts.Table, DefaultTable), migrates: opts.CreateTable}
	b.invalid = checkTable(b.table)
	b.read = b.statement(d.Read)
	b.take = b.claiming(d.Take)
	b.create = b.claiming(d.Create)
	b.acquire = b.claiming(d.Acquire)
	b.renew = b.statement(d.Renew)
	b.release = b.statement(d.Release)
	b.abandon = b.statement(d.Abandon)
	b.end = b.statement(d.Break)
	b.mark = b.statement(d.Note)
	b.guard = b.statement(d.Guard)
	b.records = recordStatements{
		read:    b.statement(d.Records.Read),
		create:  b.statement(d.Records.Create),
		replace: b.statement(d.Records.Replace),
		remove:  b.statement(d.Records.Delete),
		sweep:   b.statement(d.Records.Sweep),
	}
	for _, ddl := range d.Schema {
		b.schema = append(b.schema, &Command{Text: b.named(ddl), Once: true})
	}
	b.retrier = make(turn, 1)
	if d.OneWriter {
		b.writer = make(turn, 1)
	}
	return b
}

// Name returns the dialect's name: "sqlite".
func (b *Backend) Name() string { return b.dialect.Name }

// Limits says that a lease is at least 10 ms long, and whether calls may outlive their context.
func (b *Backend) Limits() backend.Limits {
	return backend.Limits{MinTTL: minTTL, Blocking: b.dialect.Blocking, LookFirst: b.dialect.LookFirst}
}

// Check implements [backend.Checker]: it reports a bad table name and a nil handle.
func (b *Backend) Check() error { return b.invalid }

// Advise implements [backend.Advisor]: it looks at the settings of the database. ctx governs the queries.
func (b *Backend) Advise(ctx context.Context) ([]string, error) {
	if b.invalid != nil {
		return nil, backend.WithKind(b.invalid, backend.Misconfigured)
	}
	var warnings []string
	if b.dialect.Advise != nil && b.db != nil {
		list, err := b.dialect.Advise(ctx, b.db)
		if err != nil {
			return nil, b.fault(ctx, err)
		}
		warnings = list
	}
	if b.dialect.Warnings == "" {
		return warnings, nil
	}
	ask := &Command{Text: b.named(b.dialect.Warnings), Once: true}
	err := b.handle.Query(ctx, ask, nil, func(row Row) error {
		var warning string
		err := row.Scan(&warning)
		warnings = append(warnings, warning)
		return err
	})
	return warnings, b.fault(ctx, err)
}

// Schema returns the statements that create the tables, for migrations of one's own.
func (b *Backend) Schema() []string {
	schema := make([]string, len(b.schema))
	for i, ddl := range b.schema {
		schema[i] = ddl.Text
	}
	return schema
}

// Migrate creates the tables that do not exist. ctx governs the statements; errors are classified like those of the
// other methods.
func (b *Backend) Migrate(ctx context.Context) error {
	if b.invalid != nil {
		return backend.WithKind(b.invalid, backend.Misconfigured)
	}
	return b.fault(ctx, b.migrate(ctx))
}

// Close ends the waiters and closes what the Backend has prepared; a *sql.DB stays open. Calls after it fail, leases end
// by their time. It waits for statements in progress.
func (b *Backend) Close() error {
	b.awaiting.close()
	return b.handle.Close()
}

// named puts the table's name, and what is made of it, into a statement.
func (b *Backend) named(text string) string {
	return strings.NewReplacer(
		"{table}", b.table,
		"{channel}", Channel(b.table),
		"{presence}", strconv.FormatInt(Presence(b.table), 10),
	).Replace(text)
}

// Channel is the name under which statements on a table notify others, and {channel} in them: the table's name without a
// schema, in lower case.
func Channel(table string) string {
	return strings.ToLower(table[strings.IndexByte(table, '.')+1:])
}

// Presence is the key of the advisory lock by which somebody shows that he wants to be notified of acquisitions in a
// table, and {presence} in its statements.
func Presence(table string) int64 {
	h := fnv.New64a()
	h.Write([]byte("leader " + Channel(table)))
	return int64(h.Sum64()) //nolint:gosec // the sign is a bit like others
}

// tableName is one or two identifiers that need no quotes in any dialect; 63 bytes is the least that databases allow for
// one, also with _records behind it.
var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,54}$`)

func checkTable(name string) error {
	if tableName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("table name %q is not made of at most 55 ASCII letters, digits and underscores, "+
		"with an optional schema and dot before it", name)
}

// duration checks a lease time against the limit and returns it in µs.
func duration(ttl time.Duration) (int64, error) {
	if ttl < minTTL {
		return 0, backend.WithKind(fmt.Errorf("ttl %v is under the minimum of %v", ttl, minTTL), backend.Misconfigured)
	}
	return micros(ttl), nil
}
