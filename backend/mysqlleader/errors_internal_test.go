package mysqlleader

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/goleader/leader/backend"
)

func TestKindOf_KnowsTheErrorsOfTheDriver(t *testing.T) {
	for _, c := range []struct {
		err  error
		want backend.Kind
	}{
		{mysql.ErrInvalidConn, backend.Unavailable},
		{mysql.ErrBusyBuffer, backend.Unavailable},
		{mysql.ErrPktSync, backend.Unavailable},
		{mysql.ErrUnknownPlugin, backend.Denied},
		{mysql.ErrNoTLS, backend.Misconfigured},
		{mysql.ErrPktTooLarge, backend.Misconfigured},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, backend.Misconfigured},
		{driver.ErrBadConn, backend.Unknown}, // known to sqlleader
		{errors.New("another"), backend.Unknown},
	} {
		for _, err := range []error{c.err, fmt.Errorf("query: %w", c.err)} {
			if got := kindOf(err); got != c.want {
				t.Errorf("kindOf(%v) = %v, want %v", err, got, c.want)
			}
		}
	}
}

func TestNumber_IsThatOfTheServer(t *testing.T) {
	answer := &mysql.MySQLError{Number: 1213, Message: "Error 1062: not this one"}
	if n := number(fmt.Errorf("query: %w", answer)); n != 1213 {
		t.Errorf("number %d, want 1213", n)
	}
	if n := number(errors.New("Error 1213: by text")); n != 0 {
		t.Errorf("number %d of another error", n)
	}
}
