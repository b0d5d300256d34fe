package mongoleader_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/mongoleader"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/internal/testserver"
)

// newHistory returns a history in a new database.
func newHistory(t testing.TB) *mongoleader.History {
	t.Helper()
	server := testserver.Mongo(t)
	h, err := mongoleader.NewHistory(database(t, server, connect(t, server)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return h
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
	keep(t, h, run("a", 2, at), run("A", 3, at), run("a", 1, at), run("b", 4, at), run("a", 5, at))
	for _, row := range []struct {
		name  string
		limit int
		want  string
	}{
		{"a", 10, "a-00005 a-00002 a-00001"},
		{"a", 2, "a-00005 a-00002"},
		{"A", 10, "A-00003"},
		{"", 3, "a-00005 b-00004 A-00003"},
		{"none", 3, ""},
		{"", 0, ""},
		{"", -1, ""},
	} {
		if got := ids(recent(t, h, row.name, row.limit)); got != row.want {
			t.Errorf("the last %d of %q are %q, want %q", row.limit, row.name, got, row.want)
		}
	}
}

func TestHistory_Prune_KeepsWhatIsToBeKept(t *testing.T) {
	h, at := newHistory(t), epoch()
	var all []history.Record
	for i := range 10 {
		all = append(all, run("a", i, at), run("b", i, at.Add(-24*time.Hour)))
	}
	keep(t, h, append(all, run("c", 1, at), run("c", 2, at))...)
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
	if got, want := ids(recent(t, h, "", 100)), "a-00009 a-00008 a-00007 c-00002 c-00001"; got != want {
		t.Errorf("%q are left, want %q", got, want)
	}
	for _, r := range []history.Retention{{MaxAge: -1}, {MaxPerName: -1}} {
		if _, err := h.Prune(t.Context(), r); err == nil {
			t.Errorf("Prune(%+v) succeeded", r)
		}
	}
}

func TestHistory_Prune_DeletesInChunks(t *testing.T) {
	h, at := newHistory(t), epoch().Add(-24*time.Hour)
	var all []history.Record
	for i := range 2500 {
		all = append(all, run("a", i, at))
	}
	keep(t, h, all...)
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
