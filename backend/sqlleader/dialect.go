package sqlleader

import (
	"context"
	"database/sql"

	"github.com/goleader/leader/backend"
)

// Dialect is what a database needs said differently: its statements, as data, and a few functions. A Dialect is not
// changed after it was given to [New].
type Dialect struct {
	// Name is the store's short name: "sqlite".
	Name string
	// Blocking says that calls may outlive their context. It depends on the driver rather than on the database: the
	// dialects say true where drivers differ, and it may be set to false for one that keeps to its contexts.
	Blocking bool
	// Prepare says that statements are to be prepared once per connection, by [New]. Drivers that do so themselves, and
	// poolers that hand out connections by the transaction, want it false.
	Prepare bool
	// LookFirst says that a losing attempt locks the row, so that waiting had better read.
	LookFirst bool
	// OneWriter says that writes exclude each other anyway, so that they may as well take turns before they start.
	OneWriter bool

	// Schema is the DDL of both tables, for [Backend.Migrate]. It may be executed repeatedly.
	Schema []string

	// Read returns the rows of the keys in a range, in these columns: name, format, token, spent, owner, fence, since, µs
	// left, whether it is of another clock, ttl, µs since that was noted, renewals, metadata.
	Read Statement
	// Take makes the row a lease in one step if the key is free or is held by the token, whose end it then moves like
	// Renew. It returns whether it did, and the columns of Read: of the lease or of what stands in its way, which may have
	// changed meanwhile. No row means that another was faster. A dialect without Take, or a server for which the query
	// TakeIf returns false, reads first and then writes with Acquire. Of the slots of a group that is so in any case.
	Take   Statement
	TakeIf string
	// Acquire makes the row a lease with the values given, if there is no row or it is as it was seen, and if no other row
	// in the range, which is that of a group's slots or empty, has the token or has it as spent. Where the database has a
	// clock its result is the fence that it granted. This and the statements below are judged by their Result.
	Acquire Statement
	// Create does the same where no row was seen, for a dialect whose Acquire cannot insert one.
	Create Statement
	// Renew moves the end of the live lease with that token and fence to the later of its end and now + ttl.
	Renew Statement
	// Release ends the lease with that token and fence, spends the token and keeps the key for ttl if it was alive; a
	// row that was kept by an earlier release of the same lease is kept for ttl from now.
	Release Statement
	// Abandon spends the token if it holds the key or nobody does, creating a row if there is none.
	Abandon Statement
	// Break ends the lease with that fence, or what is kept of it, and spends its token. A row of another clock counts as
	// taken until it was freed.
	Break Statement
	// Note writes into a row of another clock, if it is as it was seen, that it has been seen now.
	Note Statement
	// Guard locks the row of the live lease with that fence, inside a transaction of the caller.
	Guard Statement
	// Records are the statements on the second table.
	Records RecordStatements

	// Sign is a cheap query of one integer that changes when another connection has committed. Without it Backend
	// cannot tell when a key was released.
	Sign string

	// Clock reads the clock that judges expiry, nil if that of the database does.
	Clock func() Reading
	// Kind classifies an error of the driver; [backend.Unknown] is a fine answer.
	Kind func(error) backend.Kind
	// NoTable reports whether err says that a table does not exist.
	NoTable func(error) bool
	// Hint returns what to do about an error, as a statement's text with {table} in it, or "". Nil means never.
	Hint func(error) string
	// Conflict reports whether err says that the statement was undone because others were faster, and that it may well
	// succeed if it is repeated. Nil means that this does not happen.
	Conflict func(error) bool

	// Warnings is a query for warnings about the database's settings, one a row. Empty means that there is none.
	Warnings string
	// Advise returns warnings about the settings of a *sql.DB. Nil means that there is nothing to look at.
	Advise func(ctx context.Context, db *sql.DB) ([]string, error)
}

// RecordStatements keep the records of [backend.Records]. A record whose end has come, by Wall or the database's clock,
// does not exist. All but Read are judged by their Result.
type RecordStatements struct {
	// Read returns the records in a range, in these columns: name, format, version, value, µs left (0 = no end), and that
	// clock in µs since 1970. If there is no record it returns one row whose columns are NULL, except the clock.
	Read Statement
	// Create makes a record where none exists, in the place of an expired one if need be.
	Create Statement
	// Replace gives the record with the version SeenVersion another value, version and end.
	Replace Statement
	// Delete deletes the record with the version SeenVersion.
	Delete Statement
	// Sweep deletes expired records, not more than take a moment.
	Sweep Statement
}

// Reading is one look at the clocks of a machine.
type Reading struct {
	Clock string // names the clock of Now: readings with different names cannot be compared
	Now   int64  // µs, by the clock that judges expiry
	Wall  int64  // µs since 1970, for people, as a floor for fences, and for the end of records
}

// Statement is SQL with {table} for the table's name, {table}_records for that of the second table, and what its
// parameters stand for, in order. {channel} and {presence} are a name and a number made of the table's name without its
// schema, for notifications and for an advisory lock.
type Statement struct {
	Text   string
	Args   []Arg
	Result Result // of a writing statement
	Holder bool   // see [Command]
}

// Result is how a writing statement says whether it changed its row.
type Result uint8

// The results.
const (
	// ChangedRows is the number of rows that it changed: one or none.
	ChangedRows Result = iota
	// InsertID is the id that it calls the last inserted one, 0 if it changed nothing. It is for databases whose number
	// of changed rows depends on the connection's settings.
	InsertID
	// Returned is the integer in the row that it returns; it returns none if it changed nothing.
	Returned
)

// Arg names a value that a statement gets.
type Arg uint8

// The values that statements get.
const (
	Key          Arg = iota // the name of the leadership or record, in full
	From                    // the first key of the range
	To                      // the first key after the range
	Token                   // of the caller
	Owner                   // of the caller, for people
	Metadata                // of the caller, a JSON object or ""
	TTL                     // of the lease, of what is kept or of the record (0 = no end), in µs
	Fence                   // of the lease; the new one for Acquire
	Clock                   // Reading.Clock
	Now                     // Reading.Now
	Wall                    // Reading.Wall
	SeenToken               // of the record that was read
	SeenFence               // likewise
	SeenRenewals            // likewise
	Value                   // of the record
	Version                 // of the record, the new one
	SeenVersion             // of the record, that it must have
	Claim                   // the token within its group, unique; NULL outside groups
)

// values are what Args stand for in one call.
type values struct {
	key, token, owner, metadata string

	within span
	ttl    int64
	fence  int64
	at     Reading
	seen   identity

	value                []byte
	version, seenVersion string
}

// list returns the values that args name.
func (v *values) list(args []Arg) []any {
	list := make([]any, len(args))
	for i, a := range args {
		list[i] = v.argument(a)
	}
	return list
}

func (v *values) argument(a Arg) any {
	switch a {
	case Key:
		return v.key
	case From:
		return v.within.from
	case To:
		return v.within.to
	case Token:
		return v.token
	case Owner:
		return v.owner
	case Metadata:
		return v.metadata
	case TTL:
		return v.ttl
	case Fence:
		return v.fence
	case Clock:
		return v.at.Clock
	case Now:
		return v.at.Now
	case Wall:
		return v.at.Wall
	case SeenToken:
		return v.seen.token
	case SeenFence:
		return v.seen.fence
	case SeenRenewals:
		return v.seen.renewals
	case Value:
		return v.value
	case Version:
		return v.version
	case SeenVersion:
		return v.seenVersion
	case Claim:
		if v.within != (span{}) {
			return v.token + " " + v.within.from
		}
	}
	return nil
}
