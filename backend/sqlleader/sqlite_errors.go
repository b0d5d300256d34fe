package sqlleader

import (
	"errors"
	"strings"

	"github.com/goleader/leader/backend"
)

// SQLite's primary result codes.
const (
	sqliteError    = 1
	sqlitePerm     = 3
	sqliteBusy     = 5
	sqliteLocked   = 6
	sqliteNoMem    = 7
	sqliteReadOnly = 8
	sqliteIOErr    = 10
	sqliteCorrupt  = 11
	sqliteFull     = 13
	sqliteCantOpen = 14
	sqliteProtocol = 15
	sqliteSchemaCh = 17
	sqliteTooBig   = 18
	sqliteConstr   = 19
	sqliteMismatch = 20
	sqliteAuth     = 23
	sqliteNotADB   = 26
)

// sqliteTexts are the beginnings of SQLite's messages, for drivers whose errors carry no code that is known here.
var sqliteTexts = map[string]int{
	"database is locked":                   sqliteBusy,
	"database table is locked":             sqliteLocked,
	"database schema is locked":            sqliteLocked,
	"locking protocol":                     sqliteProtocol,
	"attempt to write a readonly database": sqliteReadOnly,
	"database disk image is malformed":     sqliteCorrupt,
	"file is not a database":               sqliteNotADB,
	"unable to open database file":         sqliteCantOpen,
	"database or disk is full":             sqliteFull,
	"disk I/O error":                       sqliteIOErr,
	"no such table":                        sqliteError,
	"no such column":                       sqliteError,
	"has no column named":                  sqliteError,
}

func sqliteKind(err error) backend.Kind {
	switch sqliteCode(err) {
	case sqliteBusy, sqliteLocked, sqliteNoMem, sqliteIOErr, sqliteFull, sqliteProtocol, sqliteSchemaCh:
		return backend.Unavailable
	case sqliteError, sqliteReadOnly, sqliteCorrupt, sqliteCantOpen, sqliteTooBig, sqliteConstr, sqliteMismatch,
		sqliteNotADB:
		return backend.Misconfigured
	case sqlitePerm, sqliteAuth:
		return backend.Denied
	}
	return backend.Unknown
}

// sqliteCode returns the primary result code of err, 0 if it is none of SQLite's.
func sqliteCode(err error) int {
	if coded, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok {
		return coded.Code() & 0xff // the extended codes add higher bits
	}
	text := err.Error()
	for part, code := range sqliteTexts {
		if strings.Contains(text, part) {
			return code
		}
	}
	return 0
}
