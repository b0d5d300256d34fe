package sqlleader

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/goleader/leader/backend"
)

// mysqlStatements are all statements of d that get values, by what they are for.
func mysqlStatements(d *Dialect) map[string]Statement {
	return map[string]Statement{
		"read": d.Read, "take": d.Take, "acquire": d.Acquire, "create": d.Create, "renew": d.Renew, "release": d.Release,
		"abandon": d.Abandon, "break": d.Break, "guard": d.Guard, "read records": d.Records.Read,
		"create record": d.Records.Create, "replace record": d.Records.Replace, "delete record": d.Records.Delete,
		"sweep": d.Records.Sweep,
	}
}

func TestMySQL_StatementsHaveAParameterForEachArgument(t *testing.T) {
	d := MySQL()
	for name, s := range mysqlStatements(&d) {
		if s.Text == "" {
			t.Errorf("%s: no statement", name)
		}
		if n := strings.Count(s.Text, "?"); n != len(s.Args) {
			t.Errorf("%s: %d parameters, %d arguments", name, n, len(s.Args))
		}
	}
}

func TestMySQL_SendsNoTimeOfTheClient(t *testing.T) {
	d := MySQL()
	if d.Clock != nil {
		t.Error("a clock of the client judges")
	}
	for name, s := range mysqlStatements(&d) {
		for _, a := range s.Args {
			if a == Clock || a == Now || a == Wall {
				t.Errorf("%s sends the client's clock", name)
			}
		}
		// Those depend on the session's time zone, or go on during the statement.
		for _, clock := range []string{"NOW(", "SYSDATE", "CURRENT_TIMESTAMP", "UNIX_TIMESTAMP", "CURTIME"} {
			if strings.Contains(s.Text, clock) {
				t.Errorf("%s reads %s", name, clock)
			}
		}
	}
}

func TestMySQL_Errors_AreClassifiedByTheirNumbers(t *testing.T) {
	byNumber := MySQLBy(func(err error) int {
		n, _ := errors.AsType[coded](err)
		return int(n)
	})
	for _, c := range []struct {
		number   int
		kind     backend.Kind
		hint     string
		conflict bool
	}{
		{number: 1213, kind: backend.Unavailable, conflict: true},
		{number: 1062, conflict: true},
		{number: 1020, kind: backend.Unavailable, conflict: true},
		{number: 1205, kind: backend.Unavailable},
		{number: 1040, kind: backend.Unavailable},
		{number: 1290, kind: backend.Unavailable, hint: "primary"},
		{number: 1792, kind: backend.Unavailable, hint: "primary"},
		{number: 1045, kind: backend.Denied},
		{number: 1142, kind: backend.Denied, hint: "grant"},
		{number: 1146, kind: backend.Misconfigured},
		{number: 1049, kind: backend.Misconfigured},
		{number: 1048, kind: backend.Misconfigured, hint: "EMPTY_STRING_IS_NULL"},
		{number: 9999},
	} {
		text := fmt.Errorf("query: %w", fmt.Errorf("Error %d (HY000): said 'Error 1: x'", c.number))
		for name, test := range map[string]struct {
			d   Dialect
			err error
		}{"by text": {MySQL(), text}, "by number": {byNumber, fmt.Errorf("query: %w", coded(c.number))}} {
			if got := test.d.Kind(test.err); got != c.kind {
				t.Errorf("%d %s: kind %v, want %v", c.number, name, got, c.kind)
			}
			if got := test.d.Conflict(test.err); got != c.conflict {
				t.Errorf("%d %s: conflict %v", c.number, name, got)
			}
			if got := test.d.NoTable(test.err); got != (c.number == 1146) {
				t.Errorf("%d %s: no table %v", c.number, name, got)
			}
			if got := test.d.Hint(test.err); !strings.Contains(got, c.hint) || (got == "") != (c.hint == "") {
				t.Errorf("%d %s: hint %q, want %q", c.number, name, got, c.hint)
			}
		}
	}
	d := MySQL()
	if kind := d.Kind(errors.New("invalid connection")); kind != backend.Unknown {
		t.Errorf("an error without a number is %v", kind)
	}
}
