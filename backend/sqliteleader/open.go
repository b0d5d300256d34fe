package sqliteleader

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
)

const (
	// busyTimeout is how long a statement waits for another writer, in ms. The engine tries again after it.
	busyTimeout = 250
	// connections are enough for the one writer, the poller that serves waiters, and readers beside them.
	connections = 4
)

// Options configure [Open]. The zero value means the defaults.
type Options struct {
	// Table is the table's name, [sqlleader.DefaultTable] if empty; see [sqlleader.Options].
	Table string
	// FullSync makes every write wait until the disk has it (synchronous FULL). Without it a power cut may undo the last
	// writes, which matters only where the clock does not survive one either; see the package comment.
	FullSync bool
}

// Backend is a driver on a SQLite file, with the abilities of [sqlleader.Backend]. All methods may be called
// concurrently. Use [Open]: the zero value is not ready.
type Backend struct {
	*sqlleader.Backend

	db *sql.DB
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

// Open returns a driver on the file at path, a plain path and not a URI. It does no I/O: the first call of the driver
// opens the file, or creates it, puts it into WAL mode and creates the tables. The folder must exist. It refuses an empty
// path, and ":memory:", which processes cannot share and connections do not. opts may be nil.
func Open(path string, opts *Options) (*Backend, error) {
	if opts == nil {
		opts = &Options{}
	}
	if err := checkPath(path); err != nil {
		return nil, backend.WithKind(err, backend.Misconfigured)
	}
	connector, err := sqlite.NewConnector(source(path, opts))
	if err != nil {
		return nil, backend.WithKind(err, backend.Misconfigured)
	}
	dialect := sqlleader.SQLite()
	// The mode is a property of the file. Only a file that lacks a table is switched, so that nothing is written to
	// one that SQLite cannot read.
	dialect.Schema = append([]string{"PRAGMA journal_mode = WAL"}, dialect.Schema...)
	table := cmp.Or(opts.Table, sqlleader.DefaultTable)
	plain := table[strings.IndexByte(table, '.')+1:]
	db := sql.OpenDB(&checked{Connector: connector, tables: []string{plain, plain + "_records"}})
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	b := sqlleader.New(db, dialect, &sqlleader.Options{Table: table, CreateTable: true})
	if err := b.Check(); err != nil {
		return nil, errors.Join(backend.WithKind(err, backend.Misconfigured), db.Close())
	}
	return &Backend{Backend: b, db: db}, nil
}

// Close ends the waiters and closes the file. Leases that are still held end by their time. It waits for statements in
// progress.
func (b *Backend) Close() error { return errors.Join(b.Backend.Close(), b.db.Close()) }

func checkPath(path string) error {
	if path == "" || strings.HasPrefix(path, ":memory:") {
		return fmt.Errorf("path %q is not that of a file", path)
	}
	if strings.ContainsRune(path, 0) {
		return fmt.Errorf("path %q contains a NUL", path)
	}
	return nil
}

// source is the URI of the file with the settings of each connection, none of which touches the file.
func source(path string, opts *Options) string {
	path = filepath.ToSlash(filepath.Clean(path))
	if filepath.VolumeName(path) != "" {
		path = "/" + path
	}
	level := "NORMAL"
	if opts.FullSync {
		level = "FULL"
	}
	settings := url.Values{
		"_pragma":   {fmt.Sprintf("busy_timeout(%d)", busyTimeout), fmt.Sprintf("synchronous(%s)", level)},
		"_error_rc": {"1"}, // no message of an earlier error in a later one
	}
	escaped := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
	return "file:" + escaped + "?" + settings.Encode()
}
