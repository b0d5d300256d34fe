package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/history"
)

// openSQLite opens a new file.
func openSQLite(t *testing.T) *sql.DB {
	t.Helper()
	path := filepath.ToSlash(filepath.Join(t.TempDir(), "history.db"))
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// sinkOn returns a sink on a new table.
func sinkOn(t *testing.T, db *sql.DB, opts *history.SQLOptions) *history.SQL {
	t.Helper()
	s, err := history.NewSQL(db, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t *testing.T, s *history.SQL, records ...history.Record) {
	t.Helper()
	if err := s.Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
}

func recent(t *testing.T, s *history.SQL, name string, limit int) []history.Record {
	t.Helper()
	list, err := s.Recent(t.Context(), name, limit)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// ids lists the records as "name/id".
func ids(list []history.Record) string {
	var words []string
	for _, r := range list {
		words = append(words, r.Name+"/"+r.ID)
	}
	return strings.Join(words, " ")
}

var at = time.Date(2024, 2, 29, 12, 0, 0, 123456000, time.UTC)

// full has every field, at the limits of the columns and of the integers.
func full() history.Record {
	return history.Record{
		ID: strings.Repeat("i", 64), Name: strings.Repeat("é", 127), Node: "node '; DROP TABLE leader_history; --",
		Key: strings.Repeat("k", 1600), Slot: 3, Fence: 1<<64 - 1, Status: history.Failed,
		Started: at, Acquired: at.Add(time.Microsecond), Finished: at.Add(time.Hour),
		Waited: 1500 * time.Microsecond, Held: 100 * 365 * 24 * time.Hour, Attempts: 7, Unguarded: true,
		Reason: "Contended", Holder: "node-b", Error: strings.Repeat("e", 512), ErrorType: "*leader.BackendError",
		Lost: strings.Repeat("鍵", 170), Metadata: map[string]string{`"k"`: "<v>", "é": ""},
	}
}

// text shows a record with its instants in UTC.
func text(r history.Record) string {
	r.Started, r.Acquired, r.Finished = r.Started.UTC(), r.Acquired.UTC(), r.Finished.UTC()
	return fmt.Sprintf("%+v", r)
}

var placeholders = map[string]history.Placeholders{"question marks": history.Question, "dollars": history.Dollar}

func TestHistorySQL_ReturnsWhatWasWritten(t *testing.T) {
	for name, p := range placeholders {
		t.Run(name, func(t *testing.T) {
			s := sinkOn(t, openSQLite(t), &history.SQLOptions{Placeholders: p})
			minimal := history.Record{ID: "2", Name: "job", Status: history.Running, Started: at.Add(-time.Second)}
			write(t, s, full(), minimal)
			list := recent(t, s, "", 10)
			if len(list) != 2 {
				t.Fatalf("%d records", len(list))
			}
			for i, want := range []history.Record{full(), minimal} {
				if a, b := text(list[i]), text(want); a != b {
					t.Errorf("got  %s\nwant %s", a, b)
				}
			}
		})
	}
}

func TestHistorySQL_Write_ReplacesTheRecordOfARun(t *testing.T) {
	for name, p := range placeholders {
		t.Run(name, func(t *testing.T) {
			s := sinkOn(t, openSQLite(t), &history.SQLOptions{Placeholders: p})
			start := history.Record{ID: "1", Name: "job", Status: history.Running, Started: at, Fence: 5}
			end := start
			end.Status, end.Finished, end.Error = history.Failed, at.Add(time.Second), "disk full"
			for _, batch := range [][]history.Record{{start}, {start}, {end}, {end}, {start, end}} {
				write(t, s, batch...)
			}
			if list := recent(t, s, "job", 10); len(list) != 1 || text(list[0]) != text(end) {
				t.Errorf("%v", list)
			}
		})
	}
}

func TestHistorySQL_Write_StoresAllOrNothing(t *testing.T) {
	db := openSQLite(t)
	s := sinkOn(t, db, nil)
	if _, err := db.ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE INSERT ON leader_history
		WHEN NEW.id = '2' BEGIN SELECT RAISE(ABORT, 'refused'); END`); err != nil {
		t.Fatal(err)
	}
	err := s.Write(t.Context(), []history.Record{{ID: "1", Name: "a", Started: at}, {ID: "2", Name: "a", Started: at}})
	if err == nil || !strings.Contains(err.Error(), "history: insert: ") {
		t.Errorf("Write: %v", err)
	}
	if list := recent(t, s, "", 10); len(list) != 0 {
		t.Errorf("%v", list)
	}
}

func TestHistorySQL_Write_EndsWithItsContext(t *testing.T) {
	s := sinkOn(t, openSQLite(t), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Write(ctx, []history.Record{{ID: "1", Name: "a", Started: at}}); !errors.Is(err, context.Canceled) {
		t.Errorf("Write: %v", err)
	}
}

func TestHistorySQL_Recent_IsNewestFirst(t *testing.T) {
	s := sinkOn(t, openSQLite(t), nil)
	for i, name := range []string{"a", "b", "a", "a"} {
		write(t, s, history.Record{ID: strconv.Itoa(i), Name: name, Started: at.Add(time.Duration(i) * time.Second)})
	}
	write(t, s, history.Record{ID: "9", Name: "a", Started: at})
	rows := []struct {
		name  string
		limit int
		want  string
	}{
		{"a", 10, "a/3 a/2 a/9 a/0"},
		{"a", 2, "a/3 a/2"},
		{"", 3, "a/3 a/2 b/1"},
		{"A", 10, ""},
		{"a", 0, ""},
	}
	for _, row := range rows {
		if got := ids(recent(t, s, row.name, row.limit)); got != row.want {
			t.Errorf("%d of %q: %s, want %s", row.limit, row.name, got, row.want)
		}
	}
}

func TestHistorySQL_Migrate_MayBeRepeated(t *testing.T) {
	db := openSQLite(t)
	s := sinkOn(t, db, &history.SQLOptions{Table: "main.runs"})
	write(t, s, history.Record{ID: "1", Name: "job", Started: at})
	sinkOn(t, db, &history.SQLOptions{Table: "runs"})
	if list := recent(t, s, "job", 10); len(list) != 1 {
		t.Errorf("%v", list)
	}
}

func TestHistorySQL_SaysWhatFailed(t *testing.T) {
	s, err := history.NewSQL(openSQLite(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, recentErr := s.Recent(t.Context(), "", 1)
	_, pruneErr := s.Prune(t.Context(), history.Retention{MaxAge: time.Hour})
	for prefix, err := range map[string]error{
		"history: update: ": s.Write(t.Context(), []history.Record{{ID: "1", Name: "a", Started: at}}),
		"history: query: ":  recentErr,
		"history: prune: ":  pruneErr,
	} {
		if err == nil || !strings.HasPrefix(err.Error(), prefix) || !strings.Contains(err.Error(), "no such table") {
			t.Errorf("without a table: %v", err)
		}
	}
}

func TestHistorySQL_RefusesBadOptions(t *testing.T) {
	db := openSQLite(t)
	for _, table := range []string{"a b", "a;b", "a.b.c", "1a", `"a"`, "é", strings.Repeat("a", 64), "."} {
		if _, err := history.NewSQL(db, &history.SQLOptions{Table: table}); err == nil {
			t.Errorf("table %q is accepted", table)
		}
	}
	if _, err := history.NewSQL(db, &history.SQLOptions{Placeholders: 7}); err == nil {
		t.Error("unknown placeholders are accepted")
	}
	for _, keep := range []history.Retention{{MaxAge: -1}, {MaxPerName: -1}} {
		if _, err := sinkOn(t, db, nil).Prune(t.Context(), keep); err == nil {
			t.Errorf("%+v is accepted", keep)
		}
	}
}

func TestHistorySQL_Prune_ByAge(t *testing.T) {
	for name, p := range placeholders {
		t.Run(name, func(t *testing.T) {
			s := sinkOn(t, openSQLite(t), &history.SQLOptions{Placeholders: p})
			now := time.Now()
			const old = 2500 // more than two chunks
			batch := make([]history.Record, old)
			for i := range batch {
				// Some share an instant, also where a chunk ends.
				started := now.Add(-2 * time.Hour).Add(time.Duration(i/3) * time.Millisecond)
				batch[i] = history.Record{ID: fmt.Sprintf("%04d", i), Name: "job", Started: started}
			}
			write(t, s, batch...)
			write(t, s, history.Record{ID: "young", Name: "job", Started: now.Add(-30 * time.Minute)})
			deleted, err := s.Prune(t.Context(), history.Retention{MaxAge: time.Hour})
			if err != nil || deleted != old {
				t.Errorf("%d deleted, %v", deleted, err)
			}
			if got := ids(recent(t, s, "", 10)); got != "job/young" {
				t.Errorf("left: %s", got)
			}
			if deleted, err := s.Prune(t.Context(), history.Retention{MaxAge: time.Hour}); err != nil || deleted != 0 {
				t.Errorf("again: %d deleted, %v", deleted, err)
			}
		})
	}
}

func TestHistorySQL_Prune_ByCount(t *testing.T) {
	for name, p := range placeholders {
		t.Run(name, func(t *testing.T) {
			s := sinkOn(t, openSQLite(t), &history.SQLOptions{Placeholders: p})
			for i := range 5 {
				for _, name := range []string{"a", "b"} {
					// Three start at the same instant.
					started := at.Add(time.Duration(i/3) * time.Second)
					write(t, s, history.Record{ID: fmt.Sprint(name, i), Name: name, Started: started})
				}
			}
			write(t, s, history.Record{ID: "few0", Name: "few", Started: at})
			deleted, err := s.Prune(t.Context(), history.Retention{MaxPerName: 3})
			if err != nil || deleted != 4 {
				t.Errorf("%d deleted, %v", deleted, err)
			}
			for name, want := range map[string]string{"a": "a/a4 a/a3 a/a2", "b": "b/b4 b/b3 b/b2", "few": "few/few0"} {
				if got := ids(recent(t, s, name, 10)); got != want {
					t.Errorf("left: %s, want %s", got, want)
				}
			}
		})
	}
}

func TestHistorySQL_Prune_KeepsEverythingWithoutABound(t *testing.T) {
	s := sinkOn(t, openSQLite(t), nil)
	write(t, s, history.Record{ID: "1", Name: "a", Started: time.Unix(0, 0)})
	if deleted, err := s.Prune(t.Context(), history.Retention{}); err != nil || deleted != 0 {
		t.Errorf("%d deleted, %v", deleted, err)
	}
}

func TestHistorySQL_ARunThatWasPrunedIsRecordedAtItsEnd(t *testing.T) {
	s := sinkOn(t, openSQLite(t), nil)
	run := history.Record{ID: "1", Name: "a", Status: history.Running, Started: at}
	write(t, s, run)
	if deleted, err := s.Prune(t.Context(), history.Retention{MaxAge: time.Hour}); err != nil || deleted != 1 {
		t.Fatal(deleted, err)
	}
	run.Status = history.Succeeded
	write(t, s, run)
	if list := recent(t, s, "a", 10); len(list) != 1 || list[0].Status != history.Succeeded {
		t.Errorf("%v", list)
	}
}

// TestHistorySQL_TakesTheRecordsOfManyRecorders lets several recorders, as of several processes, share a table.
func TestHistorySQL_TakesTheRecordsOfManyRecorders(t *testing.T) {
	const recorders, runs = 4, 50
	db := openSQLite(t)
	store := local.New()
	t.Run("recorders", func(t *testing.T) {
		for i := range recorders {
			s := sinkOn(t, db, nil)
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				record(t, s, store, fmt.Sprint("node-", i), runs)
			})
		}
	})
	counts := map[history.Status]int{}
	for _, r := range recent(t, sinkOn(t, db, nil), "", 2*recorders*runs) {
		counts[r.Status]++
	}
	if n := counts[history.Succeeded] + counts[history.Skipped]; n != recorders*runs || len(counts) > 2 {
		t.Errorf("%v", counts)
	}
}

func record(t *testing.T, sink history.Sink, store *local.Backend, node string, runs int) {
	t.Helper()
	recorder := history.NewRecorder(sink, &history.Options{Node: node})
	e, err := leader.New(store, leader.WithNodeID(node), leader.WithHooks(recorder.Hooks()))
	if err != nil {
		t.Fatal(err)
	}
	for range runs {
		if _, err := e.RunIfLeader(t.Context(), "job", func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := recorder.Close(ctx); err != nil {
		t.Error(err)
	}
	if s := recorder.Stats(); s.Refused > 0 || s.Dropped > 0 {
		t.Errorf("%s: %+v", node, s)
	}
}
