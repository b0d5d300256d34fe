package status_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/status"
)

const often = 20 * time.Millisecond

func TestPage_Stream_TellsOfAHandOver(t *testing.T) {
	d := newStore()
	p := newPage(t, d, &status.Options{Interval: often})
	first := acquire(t, newElector(t, d, "a"), "job")
	s := watch(t, serve(t, p))
	leads := func(node string) func(document) bool {
		return func(d document) bool {
			for _, l := range d.Locks {
				if l.LeaderID != nil && *l.LeaderID == node {
					return true
				}
			}
			return false
		}
	}
	s.until("a leads", leads("a"))
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	acquire(t, newElector(t, d, "b"), "job")
	s.until("b leads", leads("b"))
}

func TestPage_Stream_TellsOnlyWhatHasChanged(t *testing.T) {
	d := newStore()
	e := newElector(t, d, "a")
	for i := range 50 {
		acquire(t, e, fmt.Sprint("job-", i))
	}
	s := watch(t, serve(t, newPage(t, d, &status.Options{Interval: often})))
	s.until("all names", func(d document) bool { return len(d.Locks) == 50 })
	acquire(t, e, "another")
	s.until("the new one alone", func(d document) bool {
		if len(d.Locks) > 1 || d.Full {
			t.Errorf("%d names are told", len(d.Locks))
		}
		return len(d.Locks) == 1 && d.Locks[0].Name == "another"
	})
}

func TestPage_Stream_ShowsWhatThisProcessDoesAtOnce(t *testing.T) {
	d := newStore()
	p := newPage(t, d, &status.Options{Interval: time.Hour})
	s := watch(t, serve(t, p))
	s.until("a look", func(d document) bool { return d.Asked != nil })
	acquire(t, newElector(t, d, "a", leader.WithHooks(p.Hooks())), "job")
	s.until("the name", func(d document) bool { return len(d.Locks) == 1 })
}

func TestPage_Stream_SaysThatTheStoreIsDownAndRecovers(t *testing.T) {
	d := newStore()
	acquire(t, newElector(t, d, "a"), "job")
	s := watch(t, serve(t, newPage(t, d, &status.Options{Interval: often})))
	s.until("it is live", func(d document) bool { return d.Asked != nil && !d.Stale })
	d.down(errDown)
	down := s.until("the store is down", func(d document) bool { return d.Stale })
	if len(down.Problems) != 1 || down.Problems[0] != "the store cannot be asked: it is unavailable" {
		t.Errorf("the problems are %q", down.Problems)
	}
	if len(down.Locks) > 0 {
		t.Errorf("an outage changes %+v", down.Locks)
	}
	older := s.until("it ages", func(d document) bool { return *d.Age > 0.1 })
	if !older.Stale || !older.Asked.Equal(*down.Asked) {
		t.Errorf("stale is %t, asked at %v, and before at %v", older.Stale, older.Asked, down.Asked)
	}
	d.up()
	s.until("it is live again", func(d document) bool { return !d.Stale && len(d.Problems) == 0 && *d.Age < 0.1 })
}

func TestPage_Stream_SaysThatTheStoreHangs(t *testing.T) {
	d := newStore()
	s := watch(t, serve(t, newPage(t, d, &status.Options{Interval: often})))
	s.until("it is live", func(d document) bool { return d.Asked != nil && !d.Stale })
	d.hangs.Store(true)
	down := s.until("it hangs", func(d document) bool { return d.Stale })
	if len(down.Problems) != 1 || down.Problems[0] != "the store cannot be asked: it does not answer" {
		t.Errorf("the problems are %q", down.Problems)
	}
	d.hangs.Store(false)
	s.until("it is live again", func(d document) bool { return !d.Stale })
}

func TestPage_Stream_BeginsAgainWithAll(t *testing.T) {
	d := newStore()
	acquire(t, newElector(t, d, "a"), "job")
	server := serve(t, newPage(t, d, &status.Options{Interval: often}))
	first := watch(t, server)
	first.until("the name", func(d document) bool { return len(d.Locks) == 1 })
	first.end()
	for range 3 {
		s := watch(t, server)
		if d, ok := s.next(); !ok || !d.Full || len(d.Locks) != 1 || d.Locks[0].Name != "job" {
			t.Errorf("a stream begins with %+v", d)
		}
		s.end()
	}
}

func TestPage_Stream_SharesOnePollAmongViewers(t *testing.T) {
	d := newStore()
	server := serve(t, newPage(t, d, &status.Options{Interval: 100 * time.Millisecond}))
	viewers := make([]*stream, 20)
	for i := range viewers {
		viewers[i] = watch(t, server)
	}
	begin, before := time.Now(), d.lists.Load()
	for range 10 {
		for _, v := range viewers {
			if _, ok := v.next(); !ok {
				t.Fatal("a stream has ended")
			}
		}
	}
	// Ten messages of twenty viewers, at ten polls a second.
	asked, most := d.lists.Load()-before, int64(time.Since(begin)/(100*time.Millisecond))+2
	if asked > most {
		t.Errorf("the store was asked %d times in %v, at most %d are wanted", asked, time.Since(begin), most)
	}
}

func TestPage_Stream_AsksNothingWhileNobodyWatches(t *testing.T) {
	d := newStore()
	p := newPage(t, d, &status.Options{Interval: often})
	server := serve(t, p)
	s := watch(t, server)
	s.until("a look", func(d document) bool { return d.Asked != nil })
	s.end()
	eventually(t, "the polls end", func() bool {
		before := d.lists.Load()
		time.Sleep(10 * often)
		return d.lists.Load() == before
	})
	watch(t, server).until("a look again", func(d document) bool { return !d.Full && d.Asked != nil })
}

// knock returns what a viewer gets that leaves at once.
func knock(t *testing.T, h http.Handler) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path+"/events", http.NoBody))
	return w.Code
}

func TestPage_Stream_RefusesMoreViewersThanAllowed(t *testing.T) {
	p := newPage(t, newStore(), &status.Options{MaxViewers: 2, Interval: often})
	server := serve(t, p)
	first := watch(t, server)
	watch(t, server)
	w := get(t, p, path+"/events")
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("one too many gets %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	first.end()
	eventually(t, "there is room again", func() bool { return knock(t, p) == http.StatusOK })
}

// slowWriter is a viewer that reads nothing after the first message.
type slowWriter struct {
	http.ResponseWriter
	writes int
	begun  chan<- struct{} // closed by the first write
	wait   <-chan struct{}
}

func (w *slowWriter) Write(b []byte) (int, error) {
	if w.writes++; w.writes > 1 {
		<-w.wait
	} else {
		close(w.begun)
	}
	return len(b), nil
}

func (w *slowWriter) Flush() {}

// watchSlowly lets a viewer watch that reads nothing until wait is closed. done is closed when its handler has returned.
func watchSlowly(t *testing.T, p *status.Page) (wait chan<- struct{}, done <-chan struct{}) {
	t.Helper()
	begun, waits, ends := make(chan struct{}), make(chan struct{}), make(chan struct{})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path+"/events", http.NoBody)
	go func() {
		defer close(ends)
		p.ServeHTTP(&slowWriter{ResponseWriter: httptest.NewRecorder(), begun: begun, wait: waits}, r)
	}()
	<-begun
	return waits, ends
}

func TestPage_Stream_DropsASlowViewer(t *testing.T) {
	d := newStore()
	p := newPage(t, d, &status.Options{Interval: time.Millisecond})
	server := serve(t, p)
	other := watch(t, server)
	wait, done := watchSlowly(t, p)
	for range 20 { // more messages than may wait for it; another viewer gets them all
		other.until("a message", func(d document) bool { return !d.Full })
	}
	close(wait)
	select {
	case <-done:
	case <-time.After(watchdog):
		t.Error("the stream of a dropped viewer does not end")
	}
}

// A client that reads nothing, behind a middleware that knows no deadlines, has its place until its handler returns.
func TestPage_Stream_KeepsThePlaceOfAViewerWhoseHandlerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPage(t, newStore(), &status.Options{Interval: time.Hour, MaxViewers: 1})
		hooks := p.Hooks()
		wait, done := watchSlowly(t, p)
		for range 100 { // more messages than may wait for it
			hooks.Released(t.Context(), leader.LeaseInfo{}) // which makes the page look
			time.Sleep(time.Second)
		}
		if code := knock(t, p); code != http.StatusServiceUnavailable {
			t.Errorf("another gets %d while the first hangs", code)
		}
		close(wait)
		<-done
		if code := knock(t, p); code != http.StatusOK {
			t.Errorf("another gets %d when the first has gone", code)
		}
	})
}

// unflushed is the writer of a middleware that forgets what the one below it can.
type unflushed struct{ http.ResponseWriter }

func (u unflushed) Unwrap() int { return 0 } // none that anybody knows

func TestPage_Stream_SaysThatAMiddlewareKeepsItFromStreaming(t *testing.T) {
	w := httptest.NewRecorder()
	p := newPage(t, newStore(), &status.Options{Interval: often})
	p.ServeHTTP(unflushed{w}, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path+"/events", http.NoBody))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "neither Flush nor Unwrap") {
		t.Errorf("%d %q, want the reason", w.Code, w.Body)
	}
	if kind := w.Header().Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") {
		t.Errorf("Content-Type %q", kind)
	}
}

// viewerKey is the key of a value that the context of a request has.
type viewerKey struct{}

// nosy notes whether a store is asked on behalf of a viewer.
type nosy struct {
	*store

	asked   atomic.Int64
	viewers atomic.Int64
}

func (n *nosy) List(ctx context.Context, prefix string, all bool) iter.Seq2[backend.Entry, error] {
	n.note(ctx)
	return n.store.List(ctx, prefix, all)
}

func (n *nosy) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	n.note(ctx)
	return n.store.Inspect(ctx, key)
}

func (n *nosy) Break(ctx context.Context, key string, fence uint64) error {
	n.note(ctx)
	return n.store.Break(ctx, key, fence)
}

func (n *nosy) note(ctx context.Context) {
	n.asked.Add(1)
	if ctx.Value(viewerKey{}) != nil {
		n.viewers.Add(1)
	}
}

func TestPage_AsksTheStoreOnBehalfOfNobody(t *testing.T) {
	d := &nosy{store: newStore()}
	p := newPage(t, d, &status.Options{Interval: often})
	mux := http.NewServeMux()
	mux.Handle("/", p)
	mux.Handle("/healthz", p.Health())
	named := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), viewerKey{}, "alice")))
	})
	snapshot(t, named)
	check(t, named)
	s := watch(t, serve(t, named))
	s.until("a look", func(d document) bool { return !d.Full })
	if asked, viewers := d.asked.Load(), d.viewers.Load(); asked < 3 || viewers > 0 {
		t.Errorf("of %d questions %d are of a viewer", asked, viewers)
	}
}

func TestPage_Release_IsOnBehalfOfWhoAsks(t *testing.T) {
	d := &nosy{store: newStore()}
	h, _ := inMemory()
	p := newPage(t, d, &status.Options{History: h, Authorize: allow("alice")})
	l := acquire(t, newElector(t, d.store, "a"), "job")
	named := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), viewerKey{}, "alice")))
	})
	if w := post(t, named, demand(l)); w.Code != http.StatusOK || d.viewers.Load() != 1 {
		t.Errorf("%d %s, %d questions are of alice, want one", w.Code, w.Body, d.viewers.Load())
	}
}

func TestPage_Close_EndsStreamsAndRefusesNewOnes(t *testing.T) {
	p := newPage(t, newStore(), &status.Options{Interval: often})
	server := serve(t, p)
	s := watch(t, server)
	p.Close()
	stop := time.AfterFunc(watchdog, func() { s.end(); t.Error("the stream does not end") })
	defer stop.Stop()
	for {
		if _, ok := s.next(); !ok {
			break
		}
	}
	if w := get(t, p, path+"/events"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("a new viewer gets %d", w.Code)
	}
	p.Close()
}

func TestPage_Stream_TellsOfEvents(t *testing.T) {
	h, m := inMemory()
	s := watch(t, serve(t, newPage(t, newStore(), &status.Options{Interval: often, History: h})))
	s.until("a look", func(d document) bool { return d.Asked != nil })
	at := time.Now()
	r := history.Record{ID: "1", Name: "job", Node: "a", Status: history.Running, Started: at, Acquired: at}
	if err := m.Write(t.Context(), []history.Record{r}); err != nil {
		t.Fatal(err)
	}
	s.until("the event", func(d document) bool { return len(d.Events) == 1 && d.Events[0].Status == "Running" })
}

func TestPage_ShowsAThousandNames(t *testing.T) {
	d := local.New()
	e := newElector(t, d, "a", leader.WithMetadata(map[string]string{"zone": "z1"}))
	for i := range 1000 {
		acquire(t, e, fmt.Sprintf("job-%04d", i))
	}
	p := newPage(t, d, nil)
	begin := time.Now()
	s := snapshot(t, p)
	if len(s.Locks) != 1000 || s.Locks[999].Name != "job-0999" || s.Omitted != 0 {
		t.Errorf("%d names are shown, %d are not", len(s.Locks), s.Omitted)
	}
	t.Logf("a snapshot took %v", time.Since(begin))
}

func TestPage_JSON_AsksTheStoreOnceInAnInterval(t *testing.T) {
	d := newStore()
	p := newPage(t, d, &status.Options{Interval: time.Hour})
	for range 50 {
		snapshot(t, p)
	}
	if n := d.lists.Load(); n != 1 {
		t.Errorf("the store was asked %d times, want once", n)
	}
}

func TestPage_Stream_PollsNoFasterHoweverBusyItsProcessIs(t *testing.T) {
	d := newStore()
	p := newPage(t, d, &status.Options{Interval: time.Hour})
	s := watch(t, serve(t, p))
	s.until("a look", func(d document) bool { return d.Asked != nil })
	e := newElector(t, d, "a", leader.WithHooks(p.Hooks()))
	begin, before := time.Now(), d.lists.Load()
	for d.lists.Load() < before+5 && time.Since(begin) < watchdog {
		if _, err := e.RunIfLeader(t.Context(), "job", func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	asked, most := d.lists.Load()-before, int64(time.Since(begin)/(100*time.Millisecond))+2
	if asked < 5 || asked > most {
		t.Errorf("the store was asked %d times in %v, want 5 to %d", asked, time.Since(begin), most)
	}
}

func TestPage_Stream_TellsThoseWhoWatchOfWhatANewViewerSees(t *testing.T) {
	d := newStore()
	p := newPage(t, d, &status.Options{Interval: time.Hour})
	server := serve(t, p)
	first := watch(t, server)
	first.until("a look", func(d document) bool { return d.Asked != nil })
	p.AddNames("given")
	second := watch(t, server)
	if d, ok := second.next(); !ok || len(d.Locks) != 1 {
		t.Fatalf("a new viewer sees %+v", d)
	}
	e := newElector(t, d, "a", leader.WithHooks(p.Hooks()))
	acquire(t, e, "job") // which makes the page look
	first.until("the name that was given", func(d document) bool {
		for _, l := range d.Locks {
			if l.Name == "given" {
				return true
			}
		}
		return false
	})
}

func TestPage_Stream_SaysThatItIsAliveWhateverLimitsItsServerHas(t *testing.T) {
	p := newPage(t, newStore(), &status.Options{Interval: time.Hour})
	server := httptest.NewUnstartedServer(p)
	server.Config.ReadTimeout, server.Config.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	s := watch(t, server)
	stop := time.AfterFunc(watchdog, s.end)
	defer stop.Stop()
	for alive := 0; alive < 2; {
		if !s.lines.Scan() {
			t.Fatalf("the stream has ended after %d signs of life: %v", alive, s.lines.Err())
		}
		if s.lines.Text() == "event: alive" {
			alive++
		}
	}
}
