package sqltest

import (
	"crypto/rand"
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
)

// alike are names that some order of some database takes for one another.
var alike = []string{
	"job", "Job", "JOB", "job ", "job  ", "jób", "jo\u0301b", "jöb", "jøb", "ｊｏｂ", "job\u200b", "j-o-b", "straße",
	"strasse", "STRASSE", "ĳ", "ij", "i", "ı", "İ", "I",
}

// databases are encodings and orders of names, as the end of CREATE DATABASE.
var databases = map[string]string{
	"C":                             "LOCALE 'C'",
	"C.UTF-8":                       "LOCALE 'C.UTF-8'",
	"ICU, German":                   "LOCALE 'C.UTF-8' LOCALE_PROVIDER icu ICU_LOCALE 'de'",
	"ICU, without accents and case": "LOCALE 'C.UTF-8' LOCALE_PROVIDER icu ICU_LOCALE 'und-u-ks-level1-ka-shifted'",
}

func TestPostgreSQL_NamesThatDifferInCaseSpacesAndAccents_AreDifferent(t *testing.T) {
	d := postgres(t, "pgx")
	for name, locale := range databases {
		t.Run(name, func(t *testing.T) {
			b := d.on(t, d.inDatabase(t, "ENCODING 'UTF8' "+locale), &sqlleader.Options{CreateTable: true})
			leases := make(map[string]backend.Lease)
			for _, name := range alike {
				leases[name] = win(t, b, request(name, long))
			}
			for _, name := range alike {
				if h := refused(t, b, name); h.Fence != leases[name].Fence() {
					t.Errorf("TryAcquire(%q) shows another's lease", name)
				}
				if h := inspect(t, b, name); h.Fence != leases[name].Fence() {
					t.Errorf("Inspect(%q) shows another's lease", name)
				}
				if _, err := b.PutRecord(t.Context(), backend.Record{Key: name + "!run/1", Value: []byte(name)}); err != nil {
					t.Errorf("PutRecord(%q): %v", name, err)
				}
				list, _, err := b.GetRecords(t.Context(), name+"!run/")
				if err != nil || len(list) != 1 || string(list[0].Value) != name {
					t.Errorf("GetRecords(%q): %v, %v", name, list, err)
				}
				for range 2 {
					if _, _, err := b.TryAcquireSlot(t.Context(), request("slot-"+name, long), 2); err != nil {
						t.Errorf("TryAcquireSlot(%q): %v", name, err)
					}
				}
			}
			if got := listed(t, b, "jo"); !slices.Equal(got, wanted("jo")) {
				t.Errorf("List: %q, want %q", got, wanted("jo"))
			}
			for _, name := range alike {
				if err := leases[name].Release(t.Context(), 0); err != nil {
					t.Errorf("Release(%q): %v", name, err)
				}
			}
		})
	}
}

// inDatabase opens a handle of a new database.
func (d *database) inDatabase(t testing.TB, how string) *sql.DB {
	t.Helper()
	name := "leader_" + strings.ToLower(rand.Text()[:12])
	execute(t, d.admin, "CREATE DATABASE "+name+" TEMPLATE template0 "+how)
	u := urlAt(t, d.server, d.server.Addr())
	u.Path = "/" + name
	return openPool(t, d.driver, u)
}

func listed(t testing.TB, b *sqlleader.Backend, prefix string) (names []string) {
	t.Helper()
	for e, err := range b.List(t.Context(), prefix, false) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, e.Key)
	}
	slices.Sort(names)
	return names
}

func wanted(prefix string) (names []string) {
	for _, name := range alike {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestPostgreSQL_ANameThatTheEncodingLacks_IsMisconfigured(t *testing.T) {
	forEachPostgres(t, func(t *testing.T, d *database) {
		db := d.inDatabase(t, "ENCODING 'LATIN1' LOCALE 'C'")
		execute(t, d.admin, "ALTER ROLE CURRENT_USER SET client_encoding = 'UTF8'") // lib/pq asks for it
		b := d.on(t, db, &sqlleader.Options{CreateTable: true})
		win(t, b, request("jób", long))
		refused(t, b, "jób")
		_, err := b.TryAcquire(t.Context(), request("鍵", long))
		wantKind(t, "TryAcquire", err, backend.Misconfigured)
	})
}

// pgx speaks in the database's encoding unless it is told otherwise.
func TestPostgreSQL_Advise_WarnsOfAnotherClientEncoding(t *testing.T) {
	d := postgres(t, "pgx")
	b := d.on(t, d.inDatabase(t, "ENCODING 'LATIN1' LOCALE 'C'"), &sqlleader.Options{CreateTable: true})
	win(t, b, request("鍵", long))
	if got := advice(t, b); !strings.Contains(got, "client_encoding is LATIN1") {
		t.Errorf("Advise: %q", got)
	}
}

func TestPostgreSQL_SchemasDoNotMeet(t *testing.T) {
	forEachPostgres(t, func(t *testing.T, d *database) {
		first, second := d.newSchema(t), d.newSchema(t)
		a, _ := d.open(t, first)
		b, _ := d.open(t, second)
		c := d.on(t, d.admin, &sqlleader.Options{Table: second + ".leader_leases"})
		win(t, a, request("job", long))
		held := win(t, b, request("job", long))
		if h := refused(t, c, "job"); h.Fence != held.Fence() {
			t.Errorf("the table that is named in full has %+v", h)
		}
		if err := held.Release(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		win(t, c, request("job", long))
		refused(t, a, "job")
	})
}

func TestPostgreSQL_TimeZonesOfSessionsDoNotMatter(t *testing.T) {
	zones := []string{"Pacific/Kiritimati", "America/St_Johns", "Asia/Kathmandu", "Pacific/Niue", "Europe/Berlin"}
	forEachPostgres(t, func(t *testing.T, d *database) {
		schema := d.newSchema(t)
		d.open(t, schema)
		var all []*sqlleader.Backend
		for _, zone := range zones {
			db := d.withSettings(t, schema, map[string]string{"timezone": zone})
			if got := queryOne[string](t, db, "SHOW timezone"); got != zone {
				t.Fatalf("the time zone is %s", got)
			}
			all = append(all, d.on(t, db, nil))
		}
		for i, b := range all {
			name := fmt.Sprint("job-", i)
			began := time.Now().Add(-time.Second)
			win(t, b, request(name, long))
			for j, other := range all {
				h := refused(t, other, name)
				if h.Remaining > long || h.Remaining < long-patience {
					t.Errorf("%s sees %v of a lease from %s", zones[j], h.Remaining, zones[i])
				}
				if h.Since.Before(began) || h.Since.After(time.Now().Add(time.Second)) {
					t.Errorf("%s sees a lease since %v, not %v, from %s", zones[j], h.Since, began, zones[i])
				}
			}
			_, err := b.PutRecord(t.Context(), backend.Record{Key: name + "!run/1", TTL: long})
			if err != nil {
				t.Fatal(err)
			}
			for j, other := range all {
				list, now, err := other.GetRecords(t.Context(), name+"!run/")
				if err != nil || len(list) != 1 || list[0].TTL < long-patience || now.Sub(began).Abs() > patience {
					t.Errorf("%s sees %v at %v, %v", zones[j], list, now, err)
				}
			}
		}
	})
}

// A client's clock, however wrong, cannot matter to statements that never get it.
func TestPostgreSQL_StatementsGetNoTimeOfTheClient(t *testing.T) {
	dialect := sqlleader.PostgreSQL()
	if dialect.Clock != nil {
		t.Error("the dialect reads a clock of the client")
	}
	statements := 0
	for _, of := range []any{dialect, dialect.Records} {
		v := reflect.ValueOf(of)
		for i := range v.NumField() {
			s, ok := reflect.TypeAssert[sqlleader.Statement](v.Field(i))
			if !ok || s.Text == "" {
				continue
			}
			statements++
			for _, arg := range s.Args {
				if arg == sqlleader.Clock || arg == sqlleader.Now || arg == sqlleader.Wall {
					t.Errorf("%s gets a time of the client", v.Type().Field(i).Name)
				}
			}
		}
	}
	if statements < 12 {
		t.Errorf("only %d statements were looked at", statements)
	}
}
