package mysqlleader

import (
	"context"
	"database/sql"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
)

// Options configure a [Backend]. The zero value means the defaults.
type Options struct {
	// Table is the table's name, [sqlleader.DefaultTable] if empty; see [sqlleader.Options].
	Table string
	// CreateTable makes a statement that finds no table create both, as [sqlleader.Backend.Migrate] does.
	CreateTable bool
}

// Backend is a driver on a table of a MariaDB or MySQL, with the abilities of [sqlleader.Backend] except waiting. All
// methods may be called concurrently. Use [New]: the zero value is not ready.
type Backend struct{ *sqlleader.Backend }

var (
	_ backend.Driver       = (*Backend)(nil)
	_ backend.Limited      = (*Backend)(nil)
	_ backend.Checker      = (*Backend)(nil)
	_ backend.Advisor      = (*Backend)(nil)
	_ backend.SlotAcquirer = (*Backend)(nil)
	_ backend.Lister       = (*Backend)(nil)
	_ backend.Breaker      = (*Backend)(nil)
	_ backend.Records      = (*Backend)(nil)
)

// New returns a driver that works on a table of db, a handle of github.com/go-sql-driver/mysql, which stays the caller's
// and must not be closed before the Backend is. It does no I/O; [sqlleader.Backend.Check] says what is wrong with the
// options, and every other call repeats it. opts may be nil.
func New(db *sql.DB, opts *Options) *Backend {
	if opts == nil {
		opts = &Options{}
	}
	dialect := sqlleader.MySQLBy(number)
	// The driver gives up the connection when a context ends, whatever it waits for.
	dialect.Blocking = false
	dialect.Advise = advise
	classify := dialect.Kind
	dialect.Kind = func(err error) backend.Kind {
		if kind := kindOf(err); kind != backend.Unknown {
			return kind
		}
		return classify(err)
	}
	options := sqlleader.Options(*opts)
	return &Backend{sqlleader.New(db, dialect, &options)}
}

// advise looks at the handle; what the server is set to is asked for by the dialect.
func advise(_ context.Context, db *sql.DB) ([]string, error) {
	if db.Stats().MaxOpenConnections == 1 {
		return []string{"the handle has one connection: a statement that waits for a locked row holds up renewals"}, nil
	}
	return nil, nil
}
