package mysqlleader

import (
	"crypto/tls"
	"errors"

	"github.com/go-sql-driver/mysql"

	"github.com/goleader/leader/backend"
)

// kinds are the errors that the driver itself returns, by what they mean for another try. Others have a number, or are
// those of the network.
var kinds = map[error]backend.Kind{
	mysql.ErrInvalidConn:       backend.Unavailable, // it broke after something was sent
	mysql.ErrMalformPkt:        backend.Unavailable,
	mysql.ErrPktSync:           backend.Unavailable,
	mysql.ErrPktSyncMul:        backend.Unavailable,
	mysql.ErrBusyBuffer:        backend.Unavailable,
	mysql.ErrCleartextPassword: backend.Denied,
	mysql.ErrNativePassword:    backend.Denied,
	mysql.ErrOldPassword:       backend.Denied,
	mysql.ErrUnknownPlugin:     backend.Denied,
	mysql.ErrOldProtocol:       backend.Misconfigured,
	mysql.ErrPktTooLarge:       backend.Misconfigured,
	mysql.ErrNoTLS:             backend.Misconfigured,
}

// number returns the server's number of err, 0 if it has none.
func number(err error) int {
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return int(answer.Number)
	}
	return 0
}

// kindOf classifies what has no number.
func kindOf(err error) backend.Kind {
	for known, kind := range kinds {
		if errors.Is(err, known) {
			return kind
		}
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return backend.Misconfigured
	}
	return backend.Unknown
}
