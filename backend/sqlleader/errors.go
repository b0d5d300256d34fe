package sqlleader

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
)

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
