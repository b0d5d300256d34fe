package status_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/status"
)

func allow(who string) func(*http.Request) (string, error) {
	return func(*http.Request) (string, error) { return who, nil }
}

// guarded is a page on which alice may force a release, and a lease.
func guarded(t *testing.T, opts status.Options) (*store, *status.Page, *history.Memory, *leader.Lease) {
	t.Helper()
	d := newStore()
	h, m := inMemory()
	opts.Interval = time.Nanosecond
	if opts.History == nil {
		opts.History = h
	}
	if opts.Authorize == nil {
		opts.Authorize = allow("alice")
	}
	p := newPage(t, d, &opts)
	l := acquire(t, newElector(t, d, "a"), "job")
	snapshot(t, p)
	return d, p, m, l
}

func demand(l *leader.Lease) url.Values {
	return url.Values{"name": {l.Info().Name}, "fence": {strconv.FormatUint(l.Info().Fence, 10)}}
}

func wantHeld(t *testing.T, d *store, held bool) {
	t.Helper()
	h, err := d.Backend.Inspect(t.Context(), "job")
	if err != nil || h.Free() == held {
		t.Errorf("the store has %+v, %v; want held %t", h, err, held)
	}
}

func TestPage_Release_EndsTheLeaseAndRecordsWhoAsked(t *testing.T) {
	d, p, m, l := guarded(t, status.Options{})
	w := post(t, p, demand(l), "Sec-Fetch-Site", "same-origin")
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	wantHeld(t, d, false)
	records := m.Recent("job", 10)
	if len(records) != 1 {
		t.Fatalf("recorded are %v, want one", records)
	}
	r := records[0]
	if r.Status != history.Lost || r.Node != "a" || r.Fence != l.Info().Fence || !strings.Contains(r.Lost, `"alice"`) {
		t.Errorf("recorded is %+v, want that alice asked", r)
	}
	s := snapshot(t, p)
	if len(s.Events) != 1 || s.Events[0].Status != "ForcedRelease" || s.Events[0].By != "alice" || s.Events[0].Node != "a" {
		t.Errorf("the events are %+v, want that alice forced a release", s.Events)
	}
	if l := s.lock(t, "job"); l.Status != "Empty" || l.LastLeaderID != "a" {
		t.Errorf("the name is shown as %+v", l)
	}
}

func TestPage_Release_EndsASlotAlone(t *testing.T) {
	d, p, _, _ := guarded(t, status.Options{})
	g, err := leader.NewGroup(d, 2, leader.WithNodeID("b"))
	if err != nil {
		t.Fatal(err)
	}
	acquire(t, g, "pool")
	l := acquire(t, g, "pool")
	form := demand(l)
	form.Set("slot", strconv.Itoa(l.Info().Slot))
	if w := post(t, p, form); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if slots := snapshot(t, p); len(slots.lock(t, "pool").Slots) != 1 {
		t.Errorf("taken are %+v, want one slot", slots.lock(t, "pool").Slots)
	}
	wantHeld(t, d, true)
}

func TestPage_Release_NeedsTheCurrentFence(t *testing.T) {
	d, p, m, l := guarded(t, status.Options{})
	form := demand(l)
	form.Set("fence", strconv.FormatUint(l.Info().Fence-1, 10))
	w := post(t, p, form)
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "not the current one") {
		t.Errorf("%d %s, want a conflict", w.Code, w.Body)
	}
	wantHeld(t, d, true)
	if r := m.Recent("job", 10); len(r) != 1 || r[0].Status != history.NotRun || r[0].Metadata["forced release by"] != "alice" {
		t.Errorf("recorded are %+v, want the try", r)
	}
	if s := snapshot(t, p); s.Events[0].Status != "ForcedReleaseFailed" {
		t.Errorf("the events are %+v", s.Events)
	}
	for _, fence := range []string{"", "0", "-1", "x", "1e3"} {
		form.Set("fence", fence)
		if w := post(t, p, form); w.Code != http.StatusBadRequest {
			t.Errorf("fence %q: %d %s", fence, w.Code, w.Body)
		}
	}
	wantHeld(t, d, true)
}

func TestPage_Release_RefusesOtherOrigins(t *testing.T) {
	d, p, m, l := guarded(t, status.Options{})
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"},
		{"Origin", "https://evil.example"},
		{"Origin", "null"},
	} {
		if w := post(t, p, demand(l), headers...); w.Code != http.StatusForbidden {
			t.Errorf("%q: %d %s", headers, w.Code, w.Body)
		}
	}
	wantHeld(t, d, true)
	if w := post(t, p, demand(l), "Origin", "http://example.com"); w.Code != http.StatusOK {
		t.Errorf("the page's own origin gets %d %s", w.Code, w.Body)
	}
	if n := len(m.Recent("", 10)); n != 1 {
		t.Errorf("%d tries are recorded, want the last one", n)
	}
}

func TestPage_Release_AsksTheAuthorizer(t *testing.T) {
	secret := errors.New("no session for cookie hunter2")
	d, p, m, l := guarded(t, status.Options{Authorize: func(r *http.Request) (string, error) {
		if r.Header.Get("X-User") == "" {
			return "", secret
		}
		return r.Header.Get("X-User"), nil
	}})
	w := post(t, p, demand(l))
	if w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "hunter2") {
		t.Errorf("%d %s, want a refusal that does not say why", w.Code, w.Body)
	}
	wantHeld(t, d, true)
	if n := len(m.Recent("", 10)); n != 0 {
		t.Errorf("%d tries are recorded", n)
	}
	if w := post(t, p, demand(l), "X-User", "bob"); w.Code != http.StatusOK {
		t.Errorf("bob gets %d %s", w.Code, w.Body)
	}
}

func TestPage_Release_NeedsANameOfWhoAsks(t *testing.T) {
	d, p, _, l := guarded(t, status.Options{Authorize: allow("")})
	if w := post(t, p, demand(l)); w.Code != http.StatusForbidden {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	wantHeld(t, d, true)
}

func TestPage_Release_IsNotThereWithoutAnAuthorizer(t *testing.T) {
	d := newStore()
	p := newPage(t, d, nil)
	l := acquire(t, newElector(t, d, "a"), "job")
	if w := post(t, p, demand(l)); w.Code != http.StatusNotFound {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if snapshot(t, p).Release {
		t.Error("it is offered")
	}
	wantHeld(t, d, true)
}

func TestPage_Release_IsForPostAlone(t *testing.T) {
	d, p, _, l := guarded(t, status.Options{})
	w := get(t, p, path+"/release?"+demand(l).Encode())
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != http.MethodPost {
		t.Errorf("%d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
	wantHeld(t, d, true)
}

func TestPage_Release_KeepsToItsNamespace(t *testing.T) {
	d := newStore()
	h, _ := inMemory()
	p := newPage(t, d, &status.Options{Namespace: "mine", Authorize: allow("alice"), History: h})
	theirs := acquire(t, newElector(t, d, "a", leader.WithNamespace("theirs")), "job")
	mine := acquire(t, newElector(t, d, "a", leader.WithNamespace("mine")), "job")
	form := demand(theirs)
	form.Set("namespace", "theirs")
	if w := post(t, p, form); w.Code != http.StatusForbidden {
		t.Errorf("another namespace: %d %s", w.Code, w.Body)
	}
	if w := post(t, p, demand(mine)); w.Code != http.StatusOK {
		t.Errorf("its own: %d %s", w.Code, w.Body)
	}
	if _, err := d.Backend.Inspect(t.Context(), "theirs/job"); err != nil {
		t.Error(err)
	}
}

// broken is a history that cannot be written.
type broken struct{ status.History }

func (broken) Write(context.Context, []history.Record) error { return errors.New("disk full") }

func TestPage_Release_DoesNothingThatCannotBeRecorded(t *testing.T) {
	h, _ := inMemory()
	d, p, _, l := guarded(t, status.Options{History: broken{h}})
	if w := post(t, p, demand(l)); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	wantHeld(t, d, true)
}

func TestPage_Release_SaysWhenTheOutcomeIsUnknown(t *testing.T) {
	d, p, m, l := guarded(t, status.Options{})
	d.down(errDown)
	w := post(t, p, demand(l))
	if w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), "not known") ||
		strings.Contains(w.Body.String(), "hunter2") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if r := m.Recent("", 1); len(r) != 1 || r[0].Status != history.NotRun || strings.Contains(r[0].Error, "hunter2") {
		t.Errorf("recorded are %+v", r)
	}
	d.up()
	if s := snapshot(t, p); s.Events[0].Status != "ForcedReleaseUnknown" {
		t.Errorf("the events are %+v, want that nobody knows", s.Events)
	}
}

func TestPage_Release_LogsWhoAsked(t *testing.T) {
	var text strings.Builder
	_, p, _, l := guarded(t, status.Options{Logger: slog.New(slog.NewTextHandler(io.Writer(&text), nil))})
	post(t, p, demand(l))
	if !strings.Contains(text.String(), "by=alice") || !strings.Contains(text.String(), "leader.name=job") {
		t.Errorf("logged is %s", text.String())
	}
}

func TestPage_Release_RefusesWhatIsNoName(t *testing.T) {
	_, p, m, l := guarded(t, status.Options{})
	for _, name := range []string{"", "a\nb", "a\x00", "a\xff", strings.Repeat("x", 256)} {
		for _, field := range []string{"name", "namespace"} {
			if name == "" && field == "namespace" {
				continue
			}
			form := demand(l)
			form.Set(field, name)
			if w := post(t, p, form); w.Code != http.StatusBadRequest {
				t.Errorf("%s %.9q: %d %s", field, name, w.Code, w.Body)
			}
		}
	}
	if n := len(m.Recent("", 10)); n != 0 {
		t.Errorf("%d are recorded", n)
	}
}

func TestPage_Release_RecordsTextsThatAHistoryCanKeep(t *testing.T) {
	_, p, m, l := guarded(t, status.Options{Authorize: allow(strings.Repeat("\U000e0001\n", 100))})
	if w := post(t, p, demand(l)); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	r := m.Recent("job", 1)[0]
	if who := r.Metadata["forced release by"]; len(r.Lost) > 512 || len(who) > 256 || strings.Contains(who, "\n") {
		t.Errorf("%d bytes of %q, %d of %q", len(r.Lost), r.Lost, len(who), who)
	}
}

func TestPage_Release_BoundsWhatTheAuthorizerReads(t *testing.T) {
	read := int64(-1)
	_, p, _, l := guarded(t, status.Options{Authorize: func(r *http.Request) (string, error) {
		read, _ = io.Copy(io.Discard, r.Body)
		return "", errors.New("no")
	}})
	form := demand(l)
	form.Set("more", strings.Repeat("x", 1<<20))
	if w := post(t, p, form); w.Code != http.StatusForbidden || read < 0 || read > 1<<16 {
		t.Errorf("%d after %d bytes", w.Code, read)
	}
}

func TestPage_Release_RefusesALargeForm(t *testing.T) {
	d, p, _, l := guarded(t, status.Options{})
	form := demand(l)
	form.Set("more", strings.Repeat("x", 1<<20))
	if w := post(t, p, form); w.Code != http.StatusBadRequest {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	wantHeld(t, d, true)
}
