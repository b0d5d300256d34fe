package sqlleader

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

func TestNew_Check_RefusesTableNamesThatNeedQuotes(t *testing.T) {
	long := strings.Repeat("x", 64)
	for name, ok := range map[string]bool{
		"leases": true, "_l": true, "app.leases": true, "L9_": true,
		"9l": false, "a.b.c": false, "a b": false, `a"b`: false, "a;drop table b": false, "a\n": false, "ä": false,
		".a": false, "a.": false, long[:56]: false, long[:55]: true,
	} {
		if err := checkTable(name); (err == nil) != ok {
			t.Errorf("checkTable(%q) = %v", name, err)
		}
	}
	b := New(nil, SQLite(), &Options{Table: "a b"})
	err := b.Check()
	if err == nil || !strings.Contains(err.Error(), `"a b"`) || !strings.Contains(err.Error(), "nil") {
		t.Errorf("Check() = %v, want both violations", err)
	}
	if _, err := b.Inspect(t.Context(), "k"); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("Inspect on a bad Backend = %v", err)
	}
}

func TestSQLite_StatementsUseEachOfTheirArguments(t *testing.T) {
	d := SQLite()
	number := regexp.MustCompile(`\?(\d+)`)
	for name, s := range map[string]Statement{
		"read": d.Read, "acquire": d.Acquire, "renew": d.Renew, "release": d.Release, "abandon": d.Abandon, "note": d.Note,
		"break": d.Break, "read records": d.Records.Read, "create record": d.Records.Create,
		"replace record": d.Records.Replace, "delete record": d.Records.Delete, "sweep": d.Records.Sweep,
	} {
		used := make(map[int]bool)
		for _, m := range number.FindAllStringSubmatch(s.Text, -1) {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			used[n] = true
		}
		for i := range s.Args {
			if !used[i+1] {
				t.Errorf("%s: argument %d is not used", name, i+1)
			}
		}
		if len(used) != len(s.Args) {
			t.Errorf("%s: %d parameters, %d arguments", name, len(used), len(s.Args))
		}
	}
}

func TestSQLite_Kind_FollowsCodesAndTexts(t *testing.T) {
	for _, c := range []struct {
		err  error
		want backend.Kind
	}{
		{coded(5), backend.Unavailable},
		{coded(5 | 2<<8), backend.Unavailable},
		{coded(13), backend.Unavailable},
		{coded(10 | 4<<8), backend.Unavailable},
		{coded(8), backend.Misconfigured},
		{coded(11), backend.Misconfigured},
		{coded(14), backend.Misconfigured},
		{coded(26), backend.Misconfigured},
		{coded(23), backend.Denied},
		{fmt.Errorf("query: %w", coded(6)), backend.Unavailable},
		{errors.New("database is locked"), backend.Unavailable},
		{errors.New("no such table: leases"), backend.Misconfigured},
		{errors.New("attempt to write a readonly database"), backend.Misconfigured},
		{errors.New("sql: database is closed"), backend.Unknown},
	} {
		if got := SQLite().Kind(c.err); got != c.want {
			t.Errorf("Kind(%v) = %v, want %v", c.err, got, c.want)
		}
	}
}

// coded is an error as SQLite drivers return them.
type coded int

func (c coded) Error() string { return "code " + strconv.Itoa(int(c)) }
func (c coded) Code() int     { return int(c) }

func TestMachineClock_KeepsItsNameAndNeverGoesBack(t *testing.T) {
	first := machineClock()
	if runtime.GOOS == "linux" && first.Clock == "wall" {
		t.Error("the wall clock judges on Linux")
	}
	for last, end := first, time.Now().Add(5*time.Millisecond); time.Now().Before(end); {
		now := machineClock()
		if now.Clock != first.Clock || now.Now < last.Now {
			t.Fatalf("%+v follows %+v", now, last)
		}
		last = now
	}
	if d := machineClock().Now - first.Now; d < 5000 || d > 5_000_000 {
		t.Errorf("5 ms are %d µs", d)
	}
}

func TestMicros_RoundsUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Microsecond: 1, time.Microsecond + 1: 2, time.Second: 1e6} {
		if got := micros(d); got != want {
			t.Errorf("micros(%v) = %d, want %d", d, got, want)
		}
	}
}
