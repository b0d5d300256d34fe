package sqltest

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/goleader/leader/history"
)

func historyRefusesNegativeBounds(t *testing.T, a *archive) {
	t.Helper()
	s := a.sink(t)
	for _, keep := range []history.Retention{{MaxAge: -1}, {MaxPerName: -1}} {
		if _, err := s.Prune(t.Context(), keep); err == nil {
			t.Errorf("%+v is accepted", keep)
		}
	}
}

// age makes the rows look as if they had been written when the runs started.
func age(t *testing.T, db *sql.DB) {
	t.Helper()
	execute(t, db, "UPDATE leader_history SET written = started")
}

func historyPrunesByAge(t *testing.T, a *archive) {
	t.Helper()
	db, _ := a.open(t)
	s := a.sinkOn(t, db, "")
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
	age(t, db)
	// It has just ended, however long ago it began.
	write(t, s, history.Record{ID: "long", Name: "job", Status: history.Lost, Started: now.Add(-240 * time.Hour)})
	deleted, err := s.Prune(t.Context(), history.Retention{MaxAge: time.Hour})
	if err != nil || deleted != old {
		t.Errorf("%d deleted, %v", deleted, err)
	}
	if got := ids(recent(t, s, "", 10)); got != "job/long job/young" {
		t.Errorf("left: %s", got)
	}
	if deleted, err := s.Prune(t.Context(), history.Retention{MaxAge: time.Hour}); err != nil || deleted != 0 {
		t.Errorf("again: %d deleted, %v", deleted, err)
	}
}

func historyPrunesByCount(t *testing.T, a *archive) {
	t.Helper()
	db, _ := a.open(t)
	s := a.sinkOn(t, db, "")
	for i := range 5 {
		for _, name := range []string{"a", "b"} {
			// Three are written at the same instant.
			started := at.Add(time.Duration(i/3) * time.Second)
			write(t, s, history.Record{ID: fmt.Sprint(name, i), Name: name, Started: started})
		}
	}
	write(t, s, history.Record{ID: "few0", Name: "few", Started: at})
	age(t, db)
	deleted, err := s.Prune(t.Context(), history.Retention{MaxPerName: 3})
	if err != nil || deleted != 4 {
		t.Errorf("%d deleted, %v", deleted, err)
	}
	for name, want := range map[string]string{"a": "a/a4 a/a3 a/a2", "b": "b/b4 b/b3 b/b2", "few": "few/few0"} {
		if got := ids(recent(t, s, name, 10)); got != want {
			t.Errorf("left: %s, want %s", got, want)
		}
	}
}

func historyKeepsEverythingWithoutABound(t *testing.T, a *archive) {
	t.Helper()
	s := a.sink(t)
	write(t, s, history.Record{ID: "1", Name: "a", Started: time.Unix(0, 0)})
	if deleted, err := s.Prune(t.Context(), history.Retention{}); err != nil || deleted != 0 {
		t.Errorf("%d deleted, %v", deleted, err)
	}
}

func historyRecordsAPrunedRunAtItsEnd(t *testing.T, a *archive) {
	t.Helper()
	db, _ := a.open(t)
	s := a.sinkOn(t, db, "")
	run := history.Record{ID: "1", Name: "a", Status: history.Running, Started: at}
	write(t, s, run)
	age(t, db)
	if deleted, err := s.Prune(t.Context(), history.Retention{MaxAge: time.Hour}); err != nil || deleted != 1 {
		t.Fatal(deleted, err)
	}
	run.Status = history.Succeeded
	write(t, s, run)
	if list := recent(t, s, "a", 10); len(list) != 1 || list[0].Status != history.Succeeded {
		t.Errorf("%v", list)
	}
}
