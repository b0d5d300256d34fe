package sqlleader

import (
	"regexp"
	"strconv"

	"github.com/goleader/leader/backend"
)

// mysqlNoTable is the number of the error that a table does not exist.
const mysqlNoTable = 1146

// mysqlKinds are error numbers by what they mean for another try.
var mysqlKinds = map[int]backend.Kind{
	1020: backend.Unavailable,   // the record has changed since the snapshot of the transaction
	1040: backend.Unavailable,   // too many connections
	1053: backend.Unavailable,   // shutdown in progress
	1158: backend.Unavailable,   // network errors
	1159: backend.Unavailable,   //
	1160: backend.Unavailable,   //
	1161: backend.Unavailable,   //
	1203: backend.Unavailable,   // too many connections of the user
	1205: backend.Unavailable,   // lock wait timeout
	1213: backend.Unavailable,   // deadlock
	1226: backend.Unavailable,   // a resource limit of the user
	1290: backend.Unavailable,   // read-only: a replica, or a primary that was one a moment ago
	1317: backend.Unavailable,   // interrupted
	1836: backend.Unavailable,   // read-only mode
	1927: backend.Unavailable,   // connection was killed
	1969: backend.Unavailable,   // max_statement_time exceeded
	3024: backend.Unavailable,   // max_execution_time exceeded
	1044: backend.Denied,        // no access to the database
	1045: backend.Denied,        // wrong user or password
	1142: backend.Denied,        // a privilege on the table is missing
	1143: backend.Denied,        // … on a column
	1227: backend.Denied,        // … on the server
	1698: backend.Denied,        // wrong authentication
	1046: backend.Misconfigured, // no database selected
	1049: backend.Misconfigured, // no such database
	1054: backend.Misconfigured, // no such column
	1064: backend.Misconfigured, // syntax
	1146: backend.Misconfigured, // no such table
	1406: backend.Misconfigured, // data too long for a column
	1461: backend.Misconfigured, // too many prepared statements
}

func mysqlKind(err error) backend.Kind { return mysqlKinds[mysqlNumber(err)] }

func mysqlHint(err error) string {
	switch mysqlNumber(err) {
	case 1142, 1143:
		return "grant SELECT, INSERT, UPDATE and DELETE on {table} and {table}_records"
	case 1290, 1836:
		return "this is a replica, or read-only by its settings: connect to the primary"
	}
	return ""
}

// mysqlConflict reports that a transaction was undone because of others: a changed record, a deadlock, or a unique index
// in which another was faster.
func mysqlConflict(err error) bool {
	switch mysqlNumber(err) {
	case 1020, 1062, 1213:
		return true
	}
	return false
}

// mysqlText is how github.com/go-sql-driver/mysql begins the text of a server's error, within that of others.
var mysqlText = regexp.MustCompile(`\bError (\d{4,5})(?: \([0-9A-Z]{5}\))?: `)

// mysqlNumber returns the server's number of err, 0 if it has none.
func mysqlNumber(err error) int {
	match := mysqlText.FindStringSubmatch(err.Error())
	if match == nil {
		return 0
	}
	number, _ := strconv.Atoi(match[1]) // it is digits
	return number
}
