package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/status"
)

// archive is a database for histories.
type archive struct {
	placeholders history.Placeholders
	// open returns a handle of an empty schema, and its name.
	open func(t testing.TB) (db *sql.DB, schema string)
	// refuse are statements after which no row with the id 2 can be inserted into leader_history.
	refuse []string
	// missing is what errors say of a table that does not exist.
	missing string
	// index counts the columns of an index, or the indexes of that name.
	index string
}

// archives are the databases that keep histories in these tests.
var archives = map[string]func(t testing.TB) *archive{
	"sqlite":              func(testing.TB) *archive { return sqliteArchive(history.Question) },
	"sqlite with dollars": func(testing.TB) *archive { return sqliteArchive(history.Dollar) },
	"pgx":                 func(t testing.TB) *archive { t.Helper(); return postgresArchive(postgres(t, "pgx")) },
	"pq":                  func(t testing.TB) *archive { t.Helper(); return postgresArchive(postgres(t, "postgres")) },
	"mysql":               func(t testing.TB) *archive { t.Helper(); return mysqlArchive(mariaDB(t, "default")) },
}

func sqliteArchive(p history.Placeholders) *archive {
	return &archive{
		placeholders: p,
		open:         func(t testing.TB) (*sql.DB, string) { t.Helper(); return openSQLite(t), "main" },
		refuse: []string{`CREATE TRIGGER refuse BEFORE INSERT ON leader_history
			WHEN NEW.id = '2' BEGIN SELECT RAISE(ABORT, 'refused'); END`},
		missing: "no such table",
		index:   "SELECT COUNT(*) FROM main.sqlite_master WHERE type = 'index' AND name = '{index}'",
	}
}

func postgresArchive(d *database) *archive {
	return &archive{
		placeholders: history.Dollar,
		open:         d.newHandle,
		refuse:       []string{"ALTER TABLE leader_history ADD CHECK (id <> '2')"},
		missing:      "does not exist",
		index:        "SELECT COUNT(*) FROM pg_indexes WHERE schemaname = current_schema() AND indexname = '{index}'",
	}
}

func mysqlArchive(d *database) *archive {
	return &archive{
		placeholders: history.Question,
		open:         d.newHandle,
		refuse:       []string{"ALTER TABLE leader_history ADD CHECK (id <> '2')"},
		missing:      "doesn't exist",
		index: "SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() " +
			"AND index_name = '{index}'",
	}
}

func (d *database) newHandle(t testing.TB) (*sql.DB, string) {
	t.Helper()
	schema := d.newSchema(t)
	return d.connect(t, d.server.Addr(), schema), schema
}

// openSQLite opens a new file.
func openSQLite(t testing.TB) *sql.DB {
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

// sink returns a sink on a new table.
func (a *archive) sink(t testing.TB) *history.SQL {
	t.Helper()
	db, _ := a.open(t)
	return a.sinkOn(t, db, "")
}

// sinkOn returns a sink on a table that exists then.
func (a *archive) sinkOn(t testing.TB, db *sql.DB, table string) *history.SQL {
	t.Helper()
	s, err := history.NewSQL(db, &history.SQLOptions{Table: table, Placeholders: a.placeholders})
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

func TestHistorySQL(t *testing.T) {
	for name, open := range archives {
		t.Run(name, func(t *testing.T) {
			a := open(t)
			for name, test := range map[string]func(t *testing.T, a *archive){
				"ReturnsWhatWasWritten":                     historyReturnsWhatWasWritten,
				"Write_ReplacesTheRecordOfARun":             historyReplacesTheRecordOfARun,
				"Write_StoresAllOrNothing":                  historyStoresAllOrNothing,
				"Write_EndsWithItsContext":                  historyEndsWithItsContext,
				"Recent_IsNewestFirst":                      historyIsNewestFirst,
				"Recent_ShowsTheEndOfALongRun":              historyShowsTheEndOfALongRun,
				"Recent_TellsNamesApart":                    historyTellsNamesApart,
				"RecentOf_TellsStatusesApart":               historyTellsStatusesApart,
				"Migrate_AddsIndexesToAnOlderTable":         historyAddsIndexesToAnOlderTable,
				"ThePageShowsAHandOver":                     historyThePageShowsAHandOver,
				"Migrate_MayBeRepeated":                     historyMigratesRepeatedly,
				"Migrate_MayBeConcurrent":                   historyMigratesConcurrently,
				"SaysWhatFailed":                            historySaysWhatFailed,
				"Prune_ByAge":                               historyPrunesByAge,
				"Prune_ByCount":                             historyPrunesByCount,
				"Prune_KeepsEverythingWithoutABound":        historyKeepsEverythingWithoutABound,
				"Prune_RefusesNegativeBounds":               historyRefusesNegativeBounds,
				"ARunThatWasPrunedIsRecordedAtItsEnd":       historyRecordsAPrunedRunAtItsEnd,
				"TakesTheRecordsOfManyRecordersWhilePruned": historyTakesTheRecordsOfManyRecorders,
			} {
				t.Run(name, func(t *testing.T) { test(t, a) })
			}
		})
	}
}

func historyReturnsWhatWasWritten(t *testing.T, a *archive) {
	t.Helper()
	s := a.sink(t)
	minimal := history.Record{ID: "2", Name: "job", Status: history.Running, Started: at.Add(-time.Second)}
	write(t, s, minimal, full())
	list := recent(t, s, "", 10)
	if len(list) != 2 {
		t.Fatalf("%d records", len(list))
	}
	for i, want := range []history.Record{full(), minimal} {
		if a, b := text(list[i]), text(want); a != b {
			t.Errorf("got  %s\nwant %s", a, b)
		}
	}
}

func historyReplacesTheRecordOfARun(t *testing.T, a *archive) {
	t.Helper()
	s := a.sink(t)
	start := history.Record{ID: "1", Name: "job", Status: history.Running, Started: at, Fence: 5}
	end := start
	end.Status, end.Finished, end.Error = history.Failed, at.Add(time.Second), "disk full"
	for _, batch := range [][]history.Record{{start}, {start}, {end}, {end}, {start, end}} {
		write(t, s, batch...)
	}
	if list := recent(t, s, "job", 10); len(list) != 1 || text(list[0]) != text(end) {
		t.Errorf("%v", list)
	}
}

func historyStoresAllOrNothing(t *testing.T, a *archive) {
	t.Helper()
	db, _ := a.open(t)
	s := a.sinkOn(t, db, "")
	for _, statement := range a.refuse {
		execute(t, db, statement)
	}
	err := s.Write(t.Context(), []history.Record{{ID: "1", Name: "a", Started: at}, {ID: "2", Name: "a", Started: at}})
	if err == nil || !strings.Contains(err.Error(), "history: insert: ") {
		t.Errorf("Write: %v", err)
	}
	if list := recent(t, s, "", 10); len(list) != 0 {
		t.Errorf("%v", list)
	}
}

func historyEndsWithItsContext(t *testing.T, a *archive) {
	t.Helper()
	s := a.sink(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Write(ctx, []history.Record{{ID: "1", Name: "a", Started: at}}); !errors.Is(err, context.Canceled) {
		t.Errorf("Write: %v", err)
	}
}

func historyIsNewestFirst(t *testing.T, a *archive) {
	t.Helper()
	s := a.sink(t)
	run := func(i int, name string) history.Record {
		return history.Record{ID: strconv.Itoa(i), Name: name, Started: at}
	}
	write(t, s, run(9, "a"), run(1, "b"), run(5, "a"), run(2, "a"))
	write(t, s, history.Record{ID: "7", Name: "a", Started: at.Add(-time.Hour)})
	rows := []struct {
		name  string
		limit int
		want  string
	}{
		{"a", 10, "a/7 a/2 a/5 a/9"},
		{"a", 2, "a/7 a/2"},
		{"", 4, "a/7 a/2 a/5 b/1"},
		{"A", 10, ""},
		{"a", 0, ""},
	}
	for _, row := range rows {
		if got := ids(recent(t, s, row.name, row.limit)); got != row.want {
			t.Errorf("%d of %q: %s, want %s", row.limit, row.name, got, row.want)
		}
	}
}

// historyShowsTheEndOfALongRun lets a run of long ago end after many younger ones.
func historyShowsTheEndOfALongRun(t *testing.T, a *archive) {
	t.Helper()
	s := a.sink(t)
	long := history.Record{ID: "1", Name: "billing", Status: history.Running, Started: at.Add(-time.Hour)}
	write(t, s, long)
	younger := make([]history.Record, 400)
	for i := range younger {
		younger[i] = history.Record{ID: fmt.Sprint("t", i), Name: "tick", Status: history.Skipped, Started: at}
	}
	write(t, s, younger...)
	long.Status, long.Finished = history.Lost, at
	write(t, s, long)
	for _, name := range []string{"", "billing"} {
		if list := recent(t, s, name, 1); len(list) != 1 || list[0].Name != "billing" || list[0].Status != history.Lost {
			t.Errorf("the last of %q: %v", name, list)
		}
	}
}

// historyThePageShowsAHandOver lets a leader of days lose its lease, with many runs of others before and after.
func historyThePageShowsAHandOver(t *testing.T, a *archive) {
	t.Helper()
	s := a.sink(t)
	busy := func(name string) {
		batch := make([]history.Record, 320)
		for i := range batch {
			batch[i] = history.Record{ID: name + strconv.Itoa(i), Name: name, Status: history.Skipped, Started: at}
		}
		write(t, s, batch...)
	}
	led := history.Record{ID: "a", Name: "billing", Status: history.Running, Started: at.Add(-72 * time.Hour)}
	next := history.Record{ID: "b", Name: "billing", Status: history.Running, Started: at.Add(-72 * time.Hour), Acquired: at}
	write(t, s, led)
	busy("before")
	led.Status, led.Finished = history.Lost, at
	write(t, s, led, next)
	busy("after")
	page, err := status.New(local.New(), &status.Options{History: s})
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, status.DefaultPath, http.NoBody))
	for _, want := range []string{`"name":"billing","status":"Lost"`, `"name":"billing","status":"Running"`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s is not in %s", want, w.Body)
		}
	}
}

func historyTellsStatusesApart(t *testing.T, a *archive) {
	t.Helper()
	s := a.sink(t)
	for i, status := range []history.Status{history.Lost, history.Running, history.Lost, history.Skipped, history.Lost} {
		write(t, s, history.Record{ID: strconv.Itoa(i), Name: "a", Status: status, Started: at})
	}
	write(t, s, history.Record{ID: "0", Name: "a", Status: history.Lost, Started: at}) // as after a lost answer
	for status, want := range map[history.Status]string{
		history.Lost: "a/0 a/4", history.Skipped: "a/3", history.Failed: "",
	} {
		list, err := s.RecentOf(t.Context(), status, 2)
		if got := ids(list); err != nil || got != want {
			t.Errorf("%v: %s, %v, want %s", status, got, err, want)
		}
	}
}

// older is the table that the first version made.
const older = `CREATE TABLE {table} (
	id VARCHAR(64) NOT NULL, name VARCHAR(255) NOT NULL, node VARCHAR(255) NOT NULL, lease_key VARCHAR(1600) NOT NULL,
	slot INTEGER NOT NULL, fence BIGINT NOT NULL, status VARCHAR(20) NOT NULL, started BIGINT NOT NULL,
	acquired BIGINT NOT NULL, finished BIGINT NOT NULL, waited BIGINT NOT NULL, held BIGINT NOT NULL,
	attempts INTEGER NOT NULL, unguarded SMALLINT NOT NULL, reason VARCHAR(255) NOT NULL, holder VARCHAR(255) NOT NULL,
	error VARCHAR(512) NOT NULL, error_type VARCHAR(255) NOT NULL, lost VARCHAR(512) NOT NULL, metadata TEXT NOT NULL,
	written BIGINT NOT NULL, PRIMARY KEY (started, id), UNIQUE (name, started, id)
) /*! CHARACTER SET utf8mb4 COLLATE utf8mb4_bin */`

func historyAddsIndexesToAnOlderTable(t *testing.T, a *archive) {
	t.Helper()
	db, schema := a.open(t)
	table := schema + ".runs"
	execute(t, db, strings.ReplaceAll(older, "{table}", table))
	s, err := history.NewSQL(db, &history.SQLOptions{Table: table, Placeholders: a.placeholders})
	if err != nil {
		t.Fatal(err)
	}
	write(t, s, full(), history.Record{ID: "2", Name: "job", Started: at.Add(-time.Hour)})
	if got := recent(t, s, "", 1); len(got) != 1 || got[0].ID != "2" {
		t.Errorf("before: %v", got)
	}
	for range 2 {
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := recent(t, s, "", 2); len(got) != 2 || text(got[1]) != text(full()) {
		t.Errorf("after: %v", got)
	}
	for _, index := range []string{"runs_written", "runs_name_written", "runs_status_written"} {
		var n int
		if err := db.QueryRowContext(t.Context(), strings.ReplaceAll(a.index, "{index}", index)).Scan(&n); err != nil || n == 0 {
			t.Errorf("index %s: %d, %v", index, n, err)
		}
	}
}

func historyTellsNamesApart(t *testing.T, a *archive) {
	t.Helper()
	s := a.sink(t)
	names := []string{"job", "Job", "jób", "jo\u0301b", "ｊob", "鍵"}
	for _, name := range names {
		for i := range 2 {
			write(t, s, history.Record{ID: name, Name: name, Started: at.Add(time.Duration(i) * time.Second)})
		}
	}
	if deleted, err := s.Prune(t.Context(), history.Retention{MaxPerName: 1}); err != nil || deleted != int64(len(names)) {
		t.Errorf("%d deleted, %v", deleted, err)
	}
	for _, name := range names {
		if got := ids(recent(t, s, name, 10)); got != name+"/"+name {
			t.Errorf("of %s: %s", name, got)
		}
	}
}

// A database whose own character set is small keeps all texts as well.
func TestHistorySQL_OnMySQL_HasACharacterSetOfItsOwn(t *testing.T) {
	d := mariaDB(t, "default")
	schema := d.newSchema(t)
	execute(t, d.admin, "ALTER DATABASE "+schema+" CHARACTER SET latin1")
	a := mysqlArchive(d)
	a.open = func(t testing.TB) (*sql.DB, string) { t.Helper(); return d.connect(t, d.server.Addr(), schema), schema }
	historyReturnsWhatWasWritten(t, a)
}

func historyMigratesRepeatedly(t *testing.T, a *archive) {
	t.Helper()
	db, schema := a.open(t)
	s := a.sinkOn(t, db, schema+".runs")
	write(t, s, history.Record{ID: "1", Name: "job", Started: at})
	a.sinkOn(t, db, "runs")
	if list := recent(t, s, "job", 10); len(list) != 1 {
		t.Errorf("%v", list)
	}
}

func historyMigratesConcurrently(t *testing.T, a *archive) {
	t.Helper()
	for range 3 {
		db, _ := a.open(t)
		together(20, func(int) { a.sinkOn(t, db, "") })
		if list := recent(t, a.sinkOn(t, db, ""), "", 10); len(list) != 0 {
			t.Errorf("%v", list)
		}
	}
}

func historySaysWhatFailed(t *testing.T, a *archive) {
	t.Helper()
	db, _ := a.open(t)
	s := a.sinkOn(t, db, "")
	execute(t, db, "DROP TABLE leader_history")
	_, recentErr := s.Recent(t.Context(), "", 1)
	_, pruneErr := s.Prune(t.Context(), history.Retention{MaxAge: time.Hour})
	for prefix, err := range map[string]error{
		"history: update: ": s.Write(t.Context(), []history.Record{{ID: "1", Name: "a", Started: at}}),
		"history: query: ":  recentErr,
		"history: prune: ":  pruneErr,
	} {
		if err == nil || !strings.HasPrefix(err.Error(), prefix) || !strings.Contains(err.Error(), a.missing) {
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
}

// historyTakesTheRecordsOfManyRecorders lets several recorders, as of several processes, share a table.
func historyTakesTheRecordsOfManyRecorders(t *testing.T, a *archive) {
	t.Helper()
	const recorders, runs = 4, 50
	db, _ := a.open(t)
	a.sinkOn(t, db, "")
	store := local.New()
	t.Run("recorders", func(t *testing.T) {
		for i := range recorders {
			s := a.sinkOn(t, db, "")
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				record(t, s, store, fmt.Sprint("node-", i), runs)
			})
		}
	})
	counts := map[history.Status]int{}
	for _, r := range recent(t, a.sinkOn(t, db, ""), "", 2*recorders*runs) {
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
