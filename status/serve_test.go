package status_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/status"
)

func TestPage_ServesItsFilesUnderAStrictPolicy(t *testing.T) {
	p := newPage(t, local.New(), nil)
	for file, kind := range map[string]string{
		"": "text/html", "style.css": "text/css", "page.js": "text/javascript", "rows.js": "text/javascript",
		"events.js": "text/javascript", "release.js": "text/javascript", "text.js": "text/javascript", "icon.svg": "image/svg+xml",
	} {
		w := get(t, p, path+"/"+file)
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || w.Body.Len() == 0 {
			t.Errorf("%q: %d, %s, %d bytes", file, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
		policy := w.Header().Get("Content-Security-Policy")
		for _, directive := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for"} {
			if !strings.Contains(policy, directive) {
				t.Errorf("%q: the policy is %q, without %s", file, policy, directive)
			}
		}
		if strings.Contains(policy, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff" ||
			w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%q: %v", file, w.Header())
		}
	}
}

// What is not written cannot be executed, nor fetched from elsewhere.
func TestPage_FilesMakeNoMarkupOfTextsAndNameNoOtherHost(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|setAttribute\("on|` +
		`srcdoc|javascript:|DOMParser|createContextualFragment`)
	elsewhere := regexp.MustCompile(`(https?:)?//[a-z0-9-]+\.[a-z]`)
	count := 0
	err := filepath.WalkDir("web", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		count++
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte("http://www.w3.org/2000/svg"), nil) // a name, which nobody fetches
		for _, pattern := range []*regexp.Regexp{forbidden, elsewhere} {
			if found := pattern.Find(text); found != nil {
				t.Errorf("%s has %q", name, found)
			}
		}
		return nil
	})
	if err != nil || count < 8 {
		t.Errorf("%d files, %v", count, err)
	}
}

func TestPage_ServesNothingElse(t *testing.T) {
	p := newPage(t, local.New(), nil)
	for _, target := range []string{
		"/", "/management", path + "x", path + "/x", path + "/index.html", path + "/web/page.js", path + "//", path + "/../x",
		path + "/release",
	} {
		if w := get(t, p, target); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	for _, target := range []string{path, path + "/", path + "/events"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			w := httptest.NewRecorder()
			p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody))
			if w.Code != http.StatusMethodNotAllowed || !strings.Contains(w.Header().Get("Allow"), http.MethodGet) {
				t.Errorf("%s %s: %d, Allow %q", method, target, w.Code, w.Header().Get("Allow"))
			}
		}
	}
}

func TestPage_MayBeElsewhere(t *testing.T) {
	p := newPage(t, local.New(), &status.Options{Path: "/ops/leaders"})
	if w := get(t, p, "/ops/leaders"); w.Code != http.StatusOK {
		t.Errorf("the JSON: %d", w.Code)
	}
	if w := get(t, p, "/ops/leaders/page.js"); w.Code != http.StatusOK {
		t.Errorf("a file: %d", w.Code)
	}
	if w := get(t, p, path); w.Code != http.StatusNotFound {
		t.Errorf("the default path: %d", w.Code)
	}
}

func TestPage_HostileTextsStayTextInJSON(t *testing.T) {
	d := local.New()
	hostile := `</script><img src=x onerror="alert(1)">&'`
	acquire(t, newElector(t, d, hostile), hostile, leader.WithMetadata(map[string]string{hostile: hostile + "\x00\n\u2028"}))
	p := newPage(t, d, nil)
	w := get(t, p, path)
	if strings.ContainsAny(w.Body.String(), "<>&\u2028") {
		t.Errorf("characters of markup are not escaped: %s", w.Body)
	}
	s := snapshot(t, p)
	l := s.lock(t, hostile)
	if *l.LeaderID != hostile || l.Metadata[hostile] != hostile+"\x00\n\u2028" {
		t.Errorf("the texts are changed: %+v", l)
	}
}

func TestPage_ShowsNoTokenAndNoSecret(t *testing.T) {
	d := newStore()
	h, m := inMemory()
	spy := &tokens{Driver: d}
	p := newPage(t, d, &status.Options{History: h, Interval: time.Nanosecond})
	e := newElector(t, spy, "a")
	acquire(t, e, "job", leader.WithMetadata(map[string]string{
		"dsn": "postgres://app:hunter2@db/x?sslpassword=hunter2", "api-key": "hunter2", "zone": "z1",
		"note": `{"password": "hunter2", "a": 1} token=hunter2; Authorization: Bearer hunter2hunter2`,
	}))
	at := time.Now()
	records := []history.Record{
		{
			ID: "1", Name: "job", Status: history.Failed, Started: at, Finished: at,
			Error: "dial amqp://app:hunter2@mq: refused, client_secret='hunter2 x', token " + spy.seen[0] +
				" app:hunter2@tcp(db:3306)/x redis://:hun/ter2@db hunter:hunter2@(db)",
		},
		{ID: "2", Name: "job", Status: history.Lost, Started: at, Finished: at, Lost: "duplicate key " + spy.seen[0]},
	}
	if err := m.Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	first := get(t, p, path).Body.String()
	d.down(errDown)
	for _, text := range []string{first, get(t, p, path).Body.String()} {
		for _, secret := range append(slices.Clone(spy.seen), "hunter2", "ter2") {
			if strings.Contains(text, secret) {
				t.Errorf("%q is shown: %s", secret, text)
			}
		}
		if !strings.Contains(text, "z1") || !strings.Contains(text, "refused") {
			t.Errorf("too much is hidden: %s", text)
		}
	}
}

// tokens remembers those that a driver is given.
type tokens struct {
	backend.Driver

	seen []string
}

func (s *tokens) Limits() backend.Limits { return backend.Limits{MinTTL: time.Millisecond} }

func (s *tokens) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	s.seen = append(s.seen, req.Token)
	return s.Driver.TryAcquire(ctx, req)
}

func TestPage_SaysWhenTheStoreIsDown(t *testing.T) {
	for kind, want := range map[backend.Kind]string{
		backend.Unavailable: "unavailable", backend.Denied: "denies access", backend.Misconfigured: "misconfigured",
		backend.Unknown: "fails",
	} {
		d := newStore()
		acquire(t, newElector(t, d, "a"), "job")
		p := newPage(t, d, &status.Options{Interval: time.Nanosecond})
		d.down(backend.WithKind(errors.New("x"), kind))
		if w := get(t, p, path); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%v: before the first answer %d", kind, w.Code)
		}
		d.up()
		snapshot(t, p)
		d.down(backend.WithKind(errors.New("x"), kind))
		s := snapshot(t, p)
		if !s.Stale || len(s.Problems) != 1 || !strings.Contains(s.Problems[0], want) || s.lock(t, "job").LeaderID == nil {
			t.Errorf("%v: %+v", kind, s)
		}
	}
}

// unread is a history that cannot be read.
type unread struct{ status.History }

func (unread) Recent(context.Context, string, int) ([]history.Record, error) {
	return nil, errors.New("no such table")
}

func TestPage_SaysWhenTheHistoryCannotBeRead(t *testing.T) {
	h, _ := inMemory()
	d := newStore()
	acquire(t, newElector(t, d, "a"), "job")
	s := snapshot(t, newPage(t, d, &status.Options{History: unread{h}}))
	if s.Stale || len(s.Problems) != 1 || s.Problems[0] != "the history cannot be read" || len(s.Locks) != 1 {
		t.Errorf("%+v, want the names all the same", s)
	}
}

// logs counts records by message.
type logs struct {
	slog.Handler

	mu    sync.Mutex
	count map[string]int
}

func (l *logs) Enabled(context.Context, slog.Level) bool { return true }

func (l *logs) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[r.Message]++
	return nil
}

func TestPage_LogsAnOutageOnce(t *testing.T) {
	d := newStore()
	l := &logs{Handler: slog.DiscardHandler, count: make(map[string]int)}
	p := newPage(t, d, &status.Options{Interval: time.Nanosecond, Logger: slog.New(l)})
	for range 2 {
		d.down(errDown)
		for range 5 {
			snapshot(t, p)
		}
		d.up()
		snapshot(t, p)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count["store cannot be asked who leads"] != 2 || l.count["store can be asked again"] != 2 {
		t.Errorf("logged are %v, want each outage and its end once", l.count)
	}
}
