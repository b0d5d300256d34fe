package sqliteleader_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqliteleader"
	"github.com/goleader/leader/backend/sqlleader"
)

func TestOpen_RefusesWhatIsNoFile(t *testing.T) {
	for _, path := range []string{"", ":memory:", "a\x00b"} {
		if _, err := sqliteleader.Open(path, nil); backend.KindOf(err) != backend.Misconfigured {
			t.Errorf("Open(%q) = %v", path, err)
		}
	}
	_, err := sqliteleader.Open("x.db", &sqliteleader.Options{Table: "a b"})
	if backend.KindOf(err) != backend.Misconfigured || !strings.Contains(err.Error(), `"a b"`) {
		t.Errorf("table: %v", err)
	}
}

func TestOpen_CreatesTheFileOnFirstUse(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"leader.db", "a b.db", "100%25.db", "what?mode=ro", "no#1"} {
		path := filepath.Join(dir, name)
		b := openWith(t, path, &sqliteleader.Options{Table: "main.jobs"})
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q before use: %v", name, err)
		}
		acquire(t, b, request("k", lasting))
		if _, err := os.Stat(path); err != nil {
			t.Errorf("after use: %v", err)
		}
		warnings, err := b.Advise(t.Context())
		if err != nil || len(warnings) > 0 {
			t.Errorf("Advise = %q, %v", warnings, err)
		}
	}
}

func TestBackend_AfterClose_FailsAtOnce(t *testing.T) {
	path := newPath(t)
	b, err := sqliteleader.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := acquire(t, b, request("k", lasting))
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if _, err := b.TryAcquire(t.Context(), request("k", lasting)); err == nil || errors.Is(err, backend.ErrHeld) {
		t.Errorf("TryAcquire: %v", err)
	}
	if err := l.Renew(t.Context(), lasting); err == nil || errors.Is(err, backend.ErrLost) {
		t.Errorf("Renew: %v", err)
	}
	if err := b.AwaitRelease(t.Context(), "k", ""); err == nil {
		t.Error("AwaitRelease on a closed Backend returned nil")
	}
	if h := inspect(t, open(t, path), "k"); h.Free() {
		t.Error("closing released the lease")
	}
}

func TestBackend_MissingTable_IsMisconfiguredWithAHint(t *testing.T) {
	db := handle(t, newPath(t))
	b := sqlleader.New(db, sqlleader.SQLite(), nil)
	_, err := b.TryAcquire(t.Context(), request("k", lasting))
	if backend.KindOf(err) != backend.Misconfigured || !strings.Contains(err.Error(), "Migrate") {
		t.Errorf("TryAcquire: %v", err)
	}
	if e, ok := errors.AsType[*sqlite.Error](err); !ok || e.Code() != 1 {
		t.Errorf("the driver's error is not in %v", err)
	}
	if err := errors.Join(b.Migrate(t.Context()), b.Migrate(t.Context())); err != nil {
		t.Fatalf("Migrate: %v", err)
	}
	acquire(t, b, request("k", lasting))
	warnings, err := b.Advise(t.Context())
	if err != nil || len(warnings) != 2 {
		t.Errorf("Advise = %q, %v; want journal mode and busy timeout", warnings, err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := db.PingContext(t.Context()); err != nil {
		t.Errorf("Close closed the user's handle: %v", err)
	}
}

func TestBackend_ForeignTable_IsMisconfiguredAndStaysAsItIs(t *testing.T) {
	for _, ddl := range []string{
		"CREATE TABLE leader_leases (name TEXT, job TEXT)",
		"CREATE VIEW leader_leases AS SELECT 1 AS name, 2 AS token",
	} {
		path := newPath(t)
		db := handle(t, path)
		execute(t, db, ddl)
		b := open(t, path)
		wantKind(t, b, backend.Misconfigured)
		if err := b.Abandon(t.Context(), request("k", lasting)); backend.KindOf(err) != backend.Misconfigured {
			t.Errorf("Abandon: %v", err)
		}
		var now string
		const q = "SELECT sql FROM sqlite_schema WHERE name = 'leader_leases'"
		if err := db.QueryRowContext(t.Context(), q).Scan(&now); err != nil || now != ddl {
			t.Errorf("schema was %q and is %q, %v", ddl, now, err)
		}
	}
}

func TestBackend_MissingFolder_IsMisconfigured(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "no", "leader.db"))
	wantKind(t, b, backend.Misconfigured)
	wantKind(t, open(t, t.TempDir()), backend.Misconfigured)
}

func TestBackend_ReadOnlyFile_IsMisconfigured(t *testing.T) {
	path := newPath(t)
	owner := open(t, path)
	release(t, acquire(t, owner, request("k", lasting)), 0)
	db := handle(t, path+"?mode=ro&_x=")
	b := sqlleader.New(db, sqlleader.SQLite(), nil)
	wantKind(t, b, backend.Misconfigured)
	if h := inspect(t, b, "k"); !h.Free() {
		t.Errorf("holder = %+v", h)
	}
}

func TestBackend_CorruptFile_IsMisconfiguredAndStaysAsItIs(t *testing.T) {
	garbage := []byte(strings.Repeat("this is no database\n", 1000))
	database := sample(t)
	header := append([]byte(nil), database...)
	copy(header[100:], garbage[:1000])
	body := append([]byte(nil), database...)
	copy(body[4096:], garbage)
	for name, content := range map[string][]byte{
		"text": garbage, "short": garbage[:100], "schema": header, "rows": body, "cut": database[:5000],
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			b, err := sqliteleader.Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.TryAcquire(t.Context(), request("k", lasting))
			if backend.KindOf(err) != backend.Misconfigured {
				t.Errorf("TryAcquire: %v", err)
			}
			if err := b.Abandon(t.Context(), request("k", lasting)); backend.KindOf(err) != backend.Misconfigured {
				t.Errorf("Abandon: %v", err)
			}
			if _, err := b.Inspect(t.Context(), "k"); backend.KindOf(err) != backend.Misconfigured {
				t.Errorf("Inspect: %v", err)
			}
			if err := b.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			after, err := os.ReadFile(path)
			if err != nil || string(after) != string(content) {
				t.Errorf("the file of %d bytes has %d and differs, %v", len(content), len(after), err)
			}
			entries, err := os.ReadDir(filepath.Dir(path))
			if err != nil || len(entries) != 1 {
				t.Errorf("beside the file: %v, %v", entries, err)
			}
		})
	}
}

// sample is a file of ours, closed, with a released key in it.
func sample(t *testing.T) []byte {
	t.Helper()
	path := newPath(t)
	b, err := sqliteleader.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, b, request("k", lasting)), 0)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil || len(content) < 8192 {
		t.Fatalf("%d bytes, %v", len(content), err)
	}
	return content
}

func TestBackend_FullDisk_IsUnavailable(t *testing.T) {
	path := newPath(t)
	acquire(t, open(t, path), request("k", lasting))
	db := handle(t, path)
	db.SetMaxOpenConns(1)
	execute(t, db, "PRAGMA max_page_count = 1")
	b := sqlleader.New(db, sqlleader.SQLite(), nil)
	var err error
	for range 200 {
		req := request("fill", lasting)
		req.Key += req.Token
		if _, err = b.TryAcquire(t.Context(), req); err != nil {
			break
		}
	}
	if backend.KindOf(err) != backend.Unavailable {
		t.Errorf("on a full disk: %v", err)
	}
}

func TestBackend_Context_EndedMeansNothingIsDone(t *testing.T) {
	b := open(t, newPath(t))
	l := acquire(t, b, request("k", lasting))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, acquired := b.TryAcquire(ctx, request("new", lasting))
	_, inspected := b.Inspect(ctx, "k")
	for what, err := range map[string]error{
		"TryAcquire": acquired, "Inspect": inspected, "Abandon": b.Abandon(ctx, request("k", lasting)),
		"Renew": l.Renew(ctx, time.Minute), "Release": l.Release(ctx, 0), "AwaitRelease": b.AwaitRelease(ctx, "k", ""),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if h := inspect(t, b, "new"); !h.Free() {
		t.Errorf("holder = %+v", h)
	}
	if h := inspect(t, b, "k"); h.Fence != l.Fence() || h.Kept {
		t.Errorf("holder = %+v", h)
	}
}

func wantKind(t *testing.T, d backend.Driver, want backend.Kind) {
	t.Helper()
	_, err := d.TryAcquire(t.Context(), request("k", lasting))
	if backend.KindOf(err) != want || errors.Is(err, backend.ErrHeld) {
		t.Errorf("TryAcquire = %v (%v), want %v", err, backend.KindOf(err), want)
		return
	}
	if _, ok := errors.AsType[*sqlite.Error](err); !ok {
		t.Errorf("the driver's error is not in %v", err)
	}
}
