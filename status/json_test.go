package status_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/status"
)

const golden = `{"locks":[` +
	`{"name":"free","status":"Empty","leaderId":null,"leaseExpiry":null,"fence":null,"since":null,"remaining":null,` +
	`"leaseTime":null,"kept":false},` +
	`{"name":"kept","status":"Occupied","leaderId":null,"leaseExpiry":"T","fence":"N","since":"T","remaining":S,` +
	`"leaseTime":S,"kept":true,"lastLeaderId":"a"},` +
	`{"name":"led","status":"Occupied","leaderId":"a","leaseExpiry":"T","fence":"N","since":"T","remaining":S,` +
	`"leaseTime":S,"kept":false,"metadata":{"zone":"z1"}},` +
	`{"name":"pool","group":true,"status":"Occupied","leaderId":null,"leaseExpiry":null,"fence":null,"since":null,` +
	`"remaining":null,"leaseTime":null,"kept":false,"capacity":3,"slots":[{"slot":0,"status":"Occupied","leaderId":"a",` +
	`"leaseExpiry":"T","fence":"N","since":"T","remaining":S,"leaseTime":S,"kept":false}]}],` +
	`"backend":"local","now":"T","asked":"T","age":S,"stale":false,"release":false,"history":false}`

var (
	times   = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"`)
	fences  = regexp.MustCompile(`"fence":"\d+"`)
	numbers = regexp.MustCompile(`"(remaining|leaseTime|age)":[0-9.]+`)
)

func TestPage_JSON_HasTheShapeOfTheReferenceAndMore(t *testing.T) {
	d := local.New()
	p := newPage(t, d, nil)
	p.AddNames("free")
	p.AddGroup(3, "pool")
	e := newElector(t, d, "a")
	acquire(t, e, "led", leader.WithMetadata(map[string]string{"zone": "z1"}))
	kept := acquire(t, e, "kept", leader.WithMinLease(time.Minute))
	if err := kept.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	g, err := leader.NewGroup(d, 1, leader.WithNodeID("a"))
	if err != nil {
		t.Fatal(err)
	}
	acquire(t, g, "pool")
	w := get(t, p, path)
	text := times.ReplaceAllString(strings.TrimSpace(w.Body.String()), `"T"`)
	text = fences.ReplaceAllString(text, `"fence":"N"`)
	text = numbers.ReplaceAllString(text, `"$1":S`)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || text != golden {
		t.Errorf("%d, %s:\n%s\nwant\n%s", w.Code, w.Header().Get("Content-Type"), text, golden)
	}
}

func TestPage_JSON_TellsTheTimes(t *testing.T) {
	d := local.New()
	p := newPage(t, d, nil)
	begin := time.Now()
	acquire(t, newElector(t, d, "a"), "job", leader.WithLeaseTime(time.Hour))
	s := snapshot(t, p)
	l := s.lock(t, "job")
	if *l.Remaining > 3600 || *l.Remaining < 3500 || *l.LeaseTime < *l.Remaining {
		t.Errorf("remaining %v of %v, want about an hour", *l.Remaining, *l.LeaseTime)
	}
	if left := l.LeaseExpiry.Sub(begin); left < 59*time.Minute || left > 61*time.Minute {
		t.Errorf("the lease expires in %v, want an hour", left)
	}
	if l.Since.Sub(begin).Abs() > watchdog || s.Asked.Before(begin.Add(-time.Second)) || *s.Age < 0 {
		t.Errorf("since %v, asked %v, age %v; began %v", l.Since, s.Asked, *s.Age, begin)
	}
}

// late is a store whose list takes its time: each name as long as another.
type late struct{ *local.Backend }

func (l late) List(ctx context.Context, prefix string, all bool) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) {
		for e, err := range l.Backend.List(ctx, prefix, all) {
			if !yield(e, err) {
				return
			}
			time.Sleep(500 * time.Millisecond)
		}
	}
}

// plainLate is a store that cannot list, and takes its time for each name.
type plainLate struct{ *local.Backend }

func (p plainLate) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	h, err := p.Backend.Inspect(ctx, key)
	time.Sleep(1500 * time.Millisecond)
	return h, err
}

func TestPage_JSON_PromisesNoMoreTimeThanIsLeftHoweverSlowTheStore(t *testing.T) {
	for name, slow := range map[string]func(d *local.Backend) backend.Driver{
		"a slow list":    func(d *local.Backend) backend.Driver { return late{d} },
		"a slow inspect": func(d *local.Backend) backend.Driver { return plain{plainLate{d}} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := local.New()
				e := newElector(t, d, "a", leader.WithLeaseTime(2*time.Second), leader.WithoutAutoExtend())
				p := newPage(t, slow(d), nil)
				for i := range 3 {
					p.AddNames(fmt.Sprint("job-", i))
					acquire(t, e, fmt.Sprint("job-", i))
				}
				began := time.Now()
				s := snapshot(t, p)
				left := 2*time.Second - time.Since(began)
				for _, l := range s.Locks {
					if got := time.Duration(*l.Remaining * float64(time.Second)); got > left || l.LeaseExpiry.After(began.Add(2*time.Second)) {
						t.Errorf("%s: %v are shown, %v are left", l.Name, got, left)
					}
				}
				if len(s.Locks) != 3 || s.Stale || left > time.Second {
					t.Errorf("%v are left of %+v", left, s)
				}
			})
		})
	}
}

func TestPage_JSON_KeepsAFenceExact(t *testing.T) {
	const fence = math.MaxUint64 - 1
	d := fixed{backend.Entry{Key: "job", Holder: backend.Holder{Owner: "a", Fence: fence, Remaining: time.Minute}}}
	s := snapshot(t, newPage(t, d, nil))
	if l := s.lock(t, "job"); l.Fence != "18446744073709551614" {
		t.Errorf("fence %s, want %d", l.Fence, uint64(fence))
	}
}

func TestPage_JSON_SparesAStoreThatIsDown(t *testing.T) {
	d := newStore()
	d.down(errDown)
	p := newPage(t, d, &status.Options{Interval: time.Hour})
	begin := time.Now()
	for range 50 {
		if s := snapshot(t, p); !s.Stale {
			t.Fatalf("%+v is not stale", s)
		}
	}
	if n, most := d.lists.Load(), int64(time.Since(begin)/time.Second)+1; n > most {
		t.Errorf("the store was asked %d times, want at most %d", n, most)
	}
	d.up()
	eventually(t, "it recovers", func() bool { return !snapshot(t, p).Stale })
}

func TestPage_JSON_RemembersANameThatIsFreeAgain(t *testing.T) {
	d := local.New()
	p := newPage(t, d, &status.Options{Interval: time.Nanosecond})
	l := acquire(t, newElector(t, d, "a"), "job")
	snapshot(t, p)
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := snapshot(t, p)
	if got := s.lock(t, "job"); got.Status != "Empty" || got.LeaderID != nil || got.LastLeaderID != "a" || got.Fence != "" {
		t.Errorf("the name is shown as %+v, want empty, and led by a before", got)
	}
}

func TestPage_JSON_ShowsAnExpiredLeaseAsFree(t *testing.T) {
	d := fixed{backend.Entry{Key: "job", Holder: backend.Holder{Owner: "a", Fence: 7}}}
	s := snapshot(t, newPage(t, d, nil))
	if got := s.lock(t, "job"); got.Status != "Empty" || got.LeaderID != nil || got.LastLeaderID != "a" {
		t.Errorf("the name is shown as %+v, want empty, and led by a before", got)
	}
}

func TestPage_JSON_TellsGroupsFromPlainNames(t *testing.T) {
	d := local.New()
	p := newPage(t, d, nil)
	acquire(t, newElector(t, d, "a"), "job")
	g, err := leader.NewGroup(d, 2, leader.WithNodeID("b"))
	if err != nil {
		t.Fatal(err)
	}
	acquire(t, g, "job")
	acquire(t, g, "job")
	s := snapshot(t, p)
	if len(s.Locks) != 2 || s.Locks[0].Group || !s.Locks[1].Group || len(s.Locks[1].Slots) != 2 {
		t.Fatalf("shown are %+v, want a plain name and a group with two taken slots", s.Locks)
	}
	if *s.Locks[0].LeaderID != "a" || *s.Locks[1].Slots[1].LeaderID != "b" || s.Locks[1].Slots[1].Slot != 1 {
		t.Errorf("shown are %+v", s.Locks)
	}
}

func TestPage_JSON_GivesNamesAndNamespacesBack(t *testing.T) {
	names := []string{"a/b", "a#1", "a!x/y", "100%", "%p", "%s", "日本", " ", "a#", "#3"}
	d := local.New()
	for _, name := range names {
		acquire(t, newElector(t, d, "plain"), name)
		acquire(t, newElector(t, d, "spaced", leader.WithNamespace("n/#%")), name)
	}
	s := snapshot(t, newPage(t, d, nil))
	seen := make(map[string]int)
	for _, l := range s.Locks {
		if l.Group || l.Namespace != "" && l.Namespace != "n/#%" {
			t.Errorf("%+v is none of what was acquired", l)
		}
		seen[l.Name]++
	}
	for _, name := range names {
		if seen[name] != 2 {
			t.Errorf("%q is shown %d times, want once in each namespace", name, seen[name])
		}
	}
	only := snapshot(t, newPage(t, d, &status.Options{Namespace: "n/#%"}))
	if len(only.Locks) != len(names) || *only.Locks[0].LeaderID != "spaced" {
		t.Errorf("a page of the namespace shows %d names, want %d", len(only.Locks), len(names))
	}
}

func TestPage_JSON_ExplainsElections(t *testing.T) {
	d := local.New()
	p := newPage(t, d, nil)
	scores := map[string]float64{"a": 12.5, "b": math.NaN(), "c": math.Inf(1)}
	strategy := leader.Scored(leader.ScorerFunc(func(c leader.Candidate, _ []leader.Candidate, _ time.Time) float64 {
		return scores[c.Node]
	}))
	var elector *leader.Strategic
	for node := range scores {
		e, err := leader.NewStrategic(d, strategy, leader.WithNodeID(node))
		if err != nil {
			t.Fatal(err)
		}
		m, err := e.Enroll(t.Context(), "job", leader.Candidate{Metadata: map[string]string{"password": "hunter2"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Leave(context.WithoutCancel(t.Context())) })
		elector = e
	}
	p.AddElection(elector, "job")
	w := get(t, p, path)
	if strings.Contains(w.Body.String(), "hunter2") {
		t.Errorf("a secret is shown: %s", w.Body)
	}
	s := snapshot(t, p)
	list := s.lock(t, "job").Candidates
	if len(list) != 3 || list[0].Node != "c" || !list[0].Preferred || list[0].Score != nil || list[0].Why != "" {
		t.Fatalf("the candidates are %+v, want c first and preferred, without a score that JSON cannot say", list)
	}
	if list[1].Node != "a" || *list[1].Score != 12.5 || !strings.Contains(list[1].Why, "below") || list[2].Score != nil {
		t.Errorf("the candidates are %+v", list)
	}
}

func TestPage_JSON_ShowsEvents(t *testing.T) {
	h, m := inMemory()
	at := time.Now()
	skipped := make([]history.Record, 100)
	for i := range skipped {
		skipped[i] = history.Record{
			ID: time.Duration(i).String(), Name: "job", Status: history.Skipped, Started: at, Reason: "Contended", Holder: "b",
		}
	}
	records := append([]history.Record{
		{ID: "x", Name: "job", Node: "a", Status: history.Lost, Started: at, Finished: at, Fence: 3, Lost: "not renewed in time"},
	}, skipped...)
	if err := m.Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	s := snapshot(t, newPage(t, local.New(), &status.Options{History: h}))
	lost := 0
	for _, e := range s.Events {
		if e.Status == "Lost" && e.Node == "a" && e.Fence == "3" && e.Lost == "not renewed in time" {
			lost++
		}
	}
	if lost != 1 || len(s.Events) > 20 || len(s.Events) < 2 || s.Events[len(s.Events)-1].Holder != "b" && s.Events[0].Holder != "b" {
		t.Errorf("%d events, of which %d are of the loss: %+v", len(s.Events), lost, s.Events)
	}
}

// recentOnly is a history that cannot be read by status.
type recentOnly struct{ status.History }

// handOver writes what two replicas record: that a loses what it has waited for days ago, and b, which waited too, has it
// now; before, in between and after that, other runs.
func handOver(t *testing.T, h status.History, others int) {
	t.Helper()
	at, days := time.Now(), 72*time.Hour
	n := 0
	write := func(r history.Record) {
		n++
		if err := h.Write(t.Context(), []history.Record{r}); err != nil {
			t.Fatal(err)
		}
	}
	busy := func() {
		for i := range others {
			began := at.Add(time.Duration(n) * time.Millisecond)
			s := []history.Status{history.Succeeded, history.Skipped}[i%2]
			write(history.Record{ID: fmt.Sprint("tick-", n), Name: "tick", Status: s, Started: began, Finished: began})
		}
	}
	led := history.Record{
		ID: "a", Name: "billing", Node: "a", Status: history.Running, Started: at.Add(-days), Acquired: at.Add(-days), Fence: 1,
	}
	write(led)
	busy()
	led.Status, led.Finished, led.Lost = history.Lost, at.Add(time.Duration(n)*time.Millisecond), "not renewed in time"
	write(led)
	busy()
	write(history.Record{
		ID: "b", Name: "billing", Node: "b", Status: history.Running, Started: at.Add(-days), Fence: 2,
		Acquired: at.Add(time.Duration(n) * time.Millisecond),
	})
	busy()
}

func TestPage_JSON_ShowsAHandOverAmongFrequentRuns(t *testing.T) {
	rows := map[string]struct {
		wrap   func(h status.History) status.History
		others int
	}{
		"by status":      {func(h status.History) status.History { return h }, 400},
		"by recent only": {func(h status.History) status.History { return recentOnly{h} }, 100},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			h, _ := inMemory()
			handOver(t, h, row.others)
			s := snapshot(t, newPage(t, local.New(), &status.Options{History: row.wrap(h)}))
			var told []string
			for _, e := range s.Events {
				if e.Name == "billing" {
					told = append(told, e.Node+" "+e.Status+e.Lost)
				}
			}
			if got, want := strings.Join(told, ", "), "b Running, a Lostnot renewed in time"; got != want {
				t.Errorf("%q are shown of %d events, want %q", got, len(s.Events), want)
			}
			if len(s.Events) != 1+1+20+15 {
				t.Errorf("%d events are shown", len(s.Events))
			}
		})
	}
}

// torn is a history in which a run ends between two of the page's questions.
type torn struct{ status.History }

func (torn) RecentOf(_ context.Context, s history.Status, _ int) ([]history.Record, error) {
	if s == history.Running || s == history.Lost {
		return []history.Record{{ID: "1", Name: "job", Status: s, Acquired: time.Now()}}, nil
	}
	return nil, nil
}

func TestPage_JSON_ShowsARunOnceThatEndsMeanwhile(t *testing.T) {
	h, _ := inMemory()
	s := snapshot(t, newPage(t, local.New(), &status.Options{History: torn{h}}))
	if len(s.Events) != 1 || s.Events[0].Status != "Lost" {
		t.Errorf("%+v, want the loss alone", s.Events)
	}
}

func TestPage_JSON_SendsBrowsersToThePage(t *testing.T) {
	p := newPage(t, local.New(), nil)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "leaderElection/" {
		t.Errorf("%d, Location %q; want to be sent to the page, relatively", w.Code, w.Header().Get("Location"))
	}
}

func TestPage_JSON_SendsBrowsersToNoOtherSite(t *testing.T) {
	for given, want := range map[string]string{
		"/ops/javascript:x": "./javascript:x/", "/a?b": "a%3Fb/", "/ops//evil.example": "evil.example/",
	} {
		p := newPage(t, local.New(), &status.Options{Path: given})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.URL.Path = given
		r.Header.Set("Accept", "text/html")
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("%s: %d, Location %q, want %q", given, w.Code, got, want)
		}
	}
}

// fixed is a store that has one key.
type fixed struct{ backend.Entry }
