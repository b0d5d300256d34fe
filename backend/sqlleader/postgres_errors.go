package sqlleader

import (
	"errors"

	"github.com/goleader/leader/backend"
)

// postgresStates are SQLSTATEs, or the classes that they begin with, by what they mean for another try; see appendix A of
// the PostgreSQL manual. The longest that fits counts.
var postgresStates = map[string]backend.Kind{
	"08":    backend.Unavailable,   // connection exceptions
	"25006": backend.Unavailable,   // read-only transaction: a replica, or a primary that was one a moment ago
	"28":    backend.Denied,        // authentication
	"42501": backend.Denied,        // insufficient privilege
	"40":    backend.Unavailable,   // transaction rollback: serialization failure, deadlock, unknown completion
	"53":    backend.Unavailable,   // insufficient resources
	"55":    backend.Unavailable,   // not in prerequisite state: lock not available, being created or dropped
	"57":    backend.Unavailable,   // operator intervention: shutdown, cancelled statement, not yet ready
	"58":    backend.Unavailable,   // system errors
	"0A000": backend.Unavailable,   // a cached plan of a table that was made anew; it is planned again
	"22":    backend.Misconfigured, // data exceptions: a character that the database's encoding lacks
	"26000": backend.Misconfigured, // no such prepared statement: a pooler gave the connection to others meanwhile
	"3D000": backend.Misconfigured, // no such database
	"3F000": backend.Misconfigured, // no such schema
	"42":    backend.Misconfigured, // syntax, a missing table or column
}

func postgresKind(err error) backend.Kind {
	state := sqlState(err)
	for n := len(state); n > 0; n-- {
		if kind, ok := postgresStates[state[:n]]; ok {
			return kind
		}
	}
	return backend.Unknown
}

func postgresHint(err error) string {
	switch sqlState(err) {
	case "42501":
		return "grant SELECT, INSERT, UPDATE and DELETE on {table} and {table}_records"
	case "25006":
		return "this is a replica, or read-only by its settings: connect to the primary, target_session_attrs=read-write"
	case "26000", "42P05":
		return "a pooler in transaction mode needs a driver that prepares nothing: default_query_exec_mode=exec for pgx"
	}
	return ""
}

// postgresConflict reports that a transaction was undone because of others: serialization failures and deadlocks, or a
// unique index in which another was faster, also that of tables that are being created.
func postgresConflict(err error) bool {
	switch sqlState(err) {
	case "40001", "40P01", "23505", "42P07", "42710":
		return true
	}
	return false
}

// sqlState returns the SQLSTATE of err, "" if it has none.
func sqlState(err error) string {
	if coded, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return coded.SQLState()
	}
	return ""
}
