package mongoleader_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/backend/mongoleader"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/internal/testserver"
	"github.com/goleader/leader/status"
)

// newHistory returns a history in a new database.
func newHistory(t testing.TB) *mongoleader.History {
	t.Helper()
	h, _ := newRuns(t)
	return h
}

// newRuns is newHistory with the collection.
func newRuns(t testing.TB) (*mongoleader.History, *mongo.Collection) {
	t.Helper()
	server := testserver.Mongo(t)
	db := database(t, server, connect(t, server))
	h, err := mongoleader.NewHistory(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		migrate(t, h)
	}
	return h, db.Collection(mongoleader.DefaultHistory)
}

func migrate(t testing.TB, h *mongoleader.History) {
	t.Helper()
	if err := h.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// age makes the documents of runs look as if they had been written when the runs started.
func age(t testing.TB, runs *mongo.Collection, list []history.Record) {
	t.Helper()
	models := make([]mongo.WriteModel, len(list))
	for i, r := range list {
		update := bson.D{{Key: "$set", Value: bson.D{{Key: "written", Value: r.Started.UnixMicro()}}}}
		models[i] = mongo.NewUpdateOneModel().SetFilter(bson.D{{Key: "_id", Value: r.ID}}).SetUpdate(update)
	}
	if _, err := runs.BulkWrite(t.Context(), models); err != nil {
		t.Fatal(err)
	}
}

// epoch is when the runs of these tests began, in whole µs.
func epoch() time.Time { return time.Now().Add(-time.Hour).Truncate(time.Microsecond) }

// run is a record of the i-th run of a name.
func run(name string, i int, began time.Time) history.Record {
	return history.Record{
		ID: fmt.Sprintf("%s-%05d", name, i), Name: name, Node: "node-1", Status: history.Succeeded,
		Started: began.Add(time.Duration(i) * time.Second),
	}
}

func keep(t testing.TB, h *mongoleader.History, records ...history.Record) {
	t.Helper()
	if err := h.Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
}

func recent(t testing.TB, h *mongoleader.History, name string, limit int) []history.Record {
	t.Helper()
	list, err := h.Recent(t.Context(), name, limit)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// ids are those of records, in one text.
func ids(list []history.Record) string {
	var b strings.Builder
	for _, r := range list {
		b.WriteString(r.ID + " ")
	}
	return strings.TrimSpace(b.String())
}

func TestHistory_Write_KeepsEveryField(t *testing.T) {
	h, at := newHistory(t), epoch()
	want := history.Record{
		ID: "1", Name: "nightly", Node: "node-1", Key: "n/nightly#2", Slot: 2, Fence: 1<<63 + 5, Status: history.Lost,
		Started: at, Acquired: at.Add(time.Microsecond), Finished: at.Add(time.Minute), Waited: 3 * time.Microsecond,
		Held: time.Minute, Attempts: 4, Unguarded: true, Reason: "why", Holder: "node-2", Error: "went wrong",
		ErrorType: "*os.PathError", Lost: "deadline", Metadata: map[string]string{"zone.a": "$b", "quote": `"{`},
	}
	keep(t, h, want)
	list := recent(t, h, "", 10)
	if len(list) != 1 || !reflect.DeepEqual(list[0], want) {
		t.Errorf("got %+v, want %+v", list, want)
	}
	none := history.Record{ID: "2", Name: "empty", Status: history.Skipped, Started: at}
	keep(t, h, none)
	if list := recent(t, h, "empty", 10); len(list) != 1 || !reflect.DeepEqual(list[0], none) {
		t.Errorf("got %+v, want %+v", list, none)
	}
}

func TestHistory_Write_ReplacesTheRecordOfARun(t *testing.T) {
	h, at := newHistory(t), epoch()
	began := run("job", 1, at)
	began.Status = history.Running
	ended := run("job", 1, at)
	keep(t, h, began, run("job", 0, at))
	keep(t, h, ended)
	keep(t, h, ended) // as after a lost answer
	list := recent(t, h, "job", 10)
	if len(list) != 2 || list[0].Status != history.Succeeded {
		t.Errorf("got %v", list)
	}
	keep(t, h)
}

func TestHistory_Recent_IsNewestFirstAndBounded(t *testing.T) {
	h, at := newHistory(t), epoch()
	keep(t, h, run("a", 2, at), run("A", 3, at), run("a", 1, at), run("b", 0, at))
	keep(t, h, run("a", 0, at))
	for _, row := range []struct {
		name  string
		limit int
		want  string
	}{
		{"a", 10, "a-00000 a-00001 a-00002"},
		{"a", 2, "a-00000 a-00001"},
		{"A", 10, "A-00003"},
		{"", 3, "a-00000 b-00000 a-00001"},
		{"none", 3, ""},
		{"", 0, ""},
		{"", -1, ""},
	} {
		if got := ids(recent(t, h, row.name, row.limit)); got != row.want {
			t.Errorf("the last %d of %q are %q, want %q", row.limit, row.name, got, row.want)
		}
	}
}

// The end of a run that began long ago is news.
func TestHistory_Recent_ShowsTheEndOfALongRun(t *testing.T) {
	h, at := newHistory(t), epoch()
	long := run("billing", 0, at)
	long.Status = history.Running
	keep(t, h, long)
	younger := make([]history.Record, 400)
	for i := range younger {
		younger[i] = run("tick", i+1, at)
	}
	keep(t, h, younger...)
	long.Status = history.Lost
	keep(t, h, long)
	for _, name := range []string{"", "billing"} {
		if list := recent(t, h, name, 1); len(list) != 1 || list[0].Status != history.Lost {
			t.Errorf("the last of %q: %v", name, list)
		}
	}
}

// A page reads by status, so that skipped runs do not crowd out a loss.
func TestHistory_IsReadByThePage(t *testing.T) {
	h, at := newHistory(t), epoch()
	lost := run("billing", 0, at)
	lost.Status = history.Lost
	keep(t, h, lost)
	skipped := make([]history.Record, 400)
	for i := range skipped {
		skipped[i] = run("tick", i, at)
		skipped[i].Status = history.Skipped
	}
	keep(t, h, skipped...)
	page, err := status.New(local.New(), &status.Options{History: h})
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, status.DefaultPath, http.NoBody))
	if !strings.Contains(w.Body.String(), `"name":"billing","status":"Lost"`) {
		t.Errorf("the loss is not in %s", w.Body)
	}
}

func TestHistory_RecentOf_TellsStatusesApart(t *testing.T) {
	h, at := newHistory(t), epoch()
	for i, status := range []history.Status{history.Lost, history.Running, history.Lost, history.Skipped, history.Lost} {
		r := run("a", i, at)
		r.Status = status
		keep(t, h, r)
	}
	for status, want := range map[history.Status]string{
		history.Lost: "a-00004 a-00002", history.Skipped: "a-00003", history.Failed: "",
	} {
		list, err := h.RecentOf(t.Context(), status, 2)
		if got := ids(list); err != nil || got != want {
			t.Errorf("%v: %q, %v, want %q", status, got, err, want)
		}
	}
}

func TestHistory_Migrate_CompletesOlderDocuments(t *testing.T) {
	h, runs := newRuns(t)
	at := epoch()
	ended := run("a", 1, at)
	ended.Finished = at.Add(time.Minute)
	keep(t, h, ended, run("a", 2, at), run("a", 3, at))
	without := bson.D{{Key: "$unset", Value: bson.D{{Key: "written", Value: ""}}}}
	if _, err := runs.UpdateMany(t.Context(), bson.D{}, without); err != nil {
		t.Fatal(err)
	}
	keep(t, h, run("a", 4, at))
	if got, want := ids(recent(t, h, "a", 1)), "a-00004"; got != want {
		t.Errorf("before: %q, want %q", got, want)
	}
	migrate(t, h)
	if got, want := ids(recent(t, h, "a", 10)), "a-00004 a-00001 a-00003 a-00002"; got != want {
		t.Errorf("after: %q, want %q", got, want)
	}
}

func TestHistory_Prune_KeepsWhatIsToBeKept(t *testing.T) {
	h, runs := newRuns(t)
	at := epoch()
	var all []history.Record
	for i := range 10 {
		all = append(all, run("a", i, at), run("b", i, at.Add(-24*time.Hour)))
	}
	all = append(all, run("c", 1, at), run("c", 2, at))
	keep(t, h, all...)
	age(t, runs, all)
	keep(t, h, run("c", 0, at.Add(-240*time.Hour))) // it has just ended, however long ago it began
	prune := func(r history.Retention, want int64) {
		t.Helper()
		if n, err := h.Prune(t.Context(), r); err != nil || n != want {
			t.Errorf("Prune(%+v): %d, %v, want %d", r, n, err, want)
		}
	}
	prune(history.Retention{}, 0)
	prune(history.Retention{MaxAge: 12 * time.Hour}, 10)
	prune(history.Retention{MaxAge: 12 * time.Hour, MaxPerName: 3}, 7)
	prune(history.Retention{MaxPerName: 3}, 0)
	if got, want := ids(recent(t, h, "", 100)), "c-00000 a-00009 a-00008 a-00007 c-00002 c-00001"; got != want {
		t.Errorf("%q are left, want %q", got, want)
	}
	for _, r := range []history.Retention{{MaxAge: -1}, {MaxPerName: -1}} {
		if _, err := h.Prune(t.Context(), r); err == nil {
			t.Errorf("Prune(%+v) succeeded", r)
		}
	}
}

func TestHistory_Prune_DeletesInChunks(t *testing.T) {
	h, runs := newRuns(t)
	at := epoch().Add(-24 * time.Hour)
	var all []history.Record
	for i := range 2500 {
		all = append(all, run("a", i, at))
	}
	keep(t, h, all...)
	age(t, runs, all)
	if n, err := h.Prune(t.Context(), history.Retention{MaxAge: time.Hour}); err != nil || n != 2500 {
		t.Errorf("Prune: %d, %v", n, err)
	}
	if list := recent(t, h, "", 10); len(list) > 0 {
		t.Errorf("%q are left", ids(list))
	}
}

func TestHistory_RefusesBadArguments(t *testing.T) {
	if _, err := mongoleader.NewHistory(nil, nil); err == nil {
		t.Error("a nil database is accepted")
	}
	b, leases := start(t)
	if _, err := mongoleader.NewHistory(leases.Database(), &mongoleader.HistoryOptions{Collection: "a$b"}); err == nil {
		t.Errorf("a bad name is accepted by %s", b.Name())
	}
}

func TestHistory_EndsWithItsContext(t *testing.T) {
	h := newHistory(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, recentErr := h.Recent(ctx, "", 1)
	_, pruneErr := h.Prune(ctx, history.Retention{MaxAge: 1, MaxPerName: 1})
	for what, err := range map[string]error{
		"Write": h.Write(ctx, []history.Record{run("a", 1, epoch())}), "Recent": recentErr, "Prune": pruneErr,
		"Migrate": h.Migrate(ctx),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestHistory_RecordsRuns(t *testing.T) {
	b, leases := start(t)
	h, err := mongoleader.NewHistory(leases.Database(), nil)
	if err != nil {
		t.Fatal(err)
	}
	recorder := history.NewRecorder(h, nil)
	e, err := leader.New(b, leader.WithHooks(recorder.Hooks()))
	if err != nil {
		t.Fatal(err)
	}
	result, err := e.RunIfLeader(t.Context(), "job", func(context.Context) error { return errors.New("went wrong") })
	if err != nil {
		t.Fatal(result, err)
	}
	if err := recorder.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := recent(t, h, "job", 10)
	if len(list) != 1 || list[0].Status != history.Failed || list[0].Error != "went wrong" || list[0].Fence == 0 {
		t.Errorf("got %+v", list)
	}
}
