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
	1021: backend.Unavailable,   // disk full
	1037: backend.Unavailable,   // out of memory
	1040: backend.Unavailable,   // too many connections
	1041: backend.Unavailable,   // out of memory
	1047: backend.Unavailable,   // a node of a cluster that is not ready
	1053: backend.Unavailable,   // shutdown in progress
	1114: backend.Unavailable,   // table full, which is mostly the disk
	1135: backend.Unavailable,   // no thread for the connection
	1158: backend.Unavailable,   // network errors
	1159: backend.Unavailable,   // …
	1160: backend.Unavailable,   // …
	1161: backend.Unavailable,   // …
	1203: backend.Unavailable,   // too many connections of the user
	1205: backend.Unavailable,   // lock wait timeout
	1206: backend.Unavailable,   // too many locks
	1213: backend.Unavailable,   // deadlock
	1226: backend.Unavailable,   // a resource limit of the user
	1290: backend.Unavailable,   // read-only: a replica, or a primary that was one a moment ago
	1317: backend.Unavailable,   // interrupted
	1792: backend.Unavailable,   // read-only transaction
	1836: backend.Unavailable,   // read-only mode
	1927: backend.Unavailable,   // connection was killed
	1969: backend.Unavailable,   // max_statement_time exceeded
	3024: backend.Unavailable,   // max_execution_time exceeded
	3100: backend.Unavailable,   // the replication of a group refused the commit
	3101: backend.Unavailable,   // …
	4031: backend.Unavailable,   // the connection was idle for too long
	1044: backend.Denied,        // no access to the database
	1045: backend.Denied,        // wrong user or password
	1129: backend.Denied,        // host blocked after many errors
	1130: backend.Denied,        // host not allowed
	1142: backend.Denied,        // a privilege on the table is missing
	1143: backend.Denied,        // … on a column
	1227: backend.Denied,        // … on the server
	1698: backend.Denied,        // wrong authentication
	1820: backend.Denied,        // password expired
	1862: backend.Denied,        // …
	3118: backend.Denied,        // account locked
	3159: backend.Denied,        // TLS required
	4151: backend.Denied,        // account locked
	1046: backend.Misconfigured, // no database selected
	1048: backend.Misconfigured, // NULL for a column: see mysqlCommits; or an empty string that counts as NULL
	1049: backend.Misconfigured, // no such database
	1054: backend.Misconfigured, // no such column
	1064: backend.Misconfigured, // syntax
	1071: backend.Misconfigured, // key too long for the page size
	1115: backend.Misconfigured, // unknown character set
	1146: backend.Misconfigured, // no such table
	1153: backend.Misconfigured, // packet larger than max_allowed_packet
	1193: backend.Misconfigured, // no such variable, of those in the DSN
	1231: backend.Misconfigured, // wrong value of a variable
	1406: backend.Misconfigured, // data too long for a column
	1461: backend.Misconfigured, // too many prepared statements
	1665: backend.Misconfigured, // a binary log of statements cannot have what this isolation writes
	1709: backend.Misconfigured, // key too long for the row format
}

func mysqlHint(number int) string {
	switch number {
	case 1142, 1143:
		return "grant SELECT, INSERT, UPDATE and DELETE on {table} and {table}_records"
	case 1290, 1792, 1836:
		return "this is a replica, or read-only by its settings: connect to the primary"
	case 1048:
		return "the session needs autocommit on, and no EMPTY_STRING_IS_NULL in its sql_mode"
	}
	return ""
}

// mysqlConflict reports that a transaction was undone because of others: a changed record, a deadlock, or a unique index
// in which another was faster.
func mysqlConflict(number int) bool {
	switch number {
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
