package sqlleader

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"

	"github.com/goleader/leader/backend"
)

// KindOf is what is known of an error of the database: [backend.Misconfigured] if a table is missing, else the kind that the
// handle has given it, else what Kind says, and [backend.Unavailable] if none knows it and there is no connection.
func (d *Dialect) KindOf(err error) backend.Kind {
	if d.NoTable(err) {
		return backend.Misconfigured
	}
	kind := backend.KindOf(err)
	if kind == backend.Unknown {
		kind = d.Kind(err)
	}
	if kind == backend.Unknown && disconnected(err) {
		kind = backend.Unavailable
	}
	return kind
}

// disconnected reports whether err says that there is no connection, or none any more.
func disconnected(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	for _, sign := range []error{driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed} {
		if errors.Is(err, sign) {
			return true
		}
	}
	return false
}
