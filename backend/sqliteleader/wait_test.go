package sqliteleader_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
)

const watchdog = 10 * time.Second

// await starts a wait for the end of what seen names and waits until it has begun.
func await(t *testing.T, w backend.Waiter, key, seen string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	ctx := bounded(t, watchdog)
	go func() { done <- w.AwaitRelease(ctx, key, seen) }()
	eventually(t, watchdog, "poller", polling)
	return done
}

// polling reports whether a poller runs in this process.
func polling() bool {
	stacks := make([]byte, 1<<20)
	return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "sqlleader.(*Backend).poll(")
}

func TestBackend_AwaitRelease_ReturnsAtTheRelease(t *testing.T) {
	path := newPath(t)
	a, b := open(t, path), open(t, path)
	for name, holder := range map[string]backend.Driver{"other handle": a, "same handle": b} {
		l := acquire(t, holder, request("k", lasting))
		done := await(t, b, "k", wantHeld(t, b, "k").Seen)
		for range 5 {
			if err := l.Renew(t.Context(), lasting); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Millisecond)
		}
		select {
		case err := <-done:
			t.Fatalf("%s: woken by renewals: %v", name, err)
		default:
		}
		begin := time.Now()
		release(t, l, 0)
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := time.Since(begin); d > 2*time.Second {
			t.Errorf("%s: woken after %v", name, d)
		}
	}
	eventually(t, watchdog, "end of the poller", func() bool { return !polling() })
}

func TestBackend_AwaitRelease_ComparesWithWhatWasSeen(t *testing.T) {
	b := open(t, newPath(t))
	l := acquire(t, b, request("k", lasting))
	seen := inspect(t, b, "k").Seen
	release(t, l, lasting)
	kept := inspect(t, b, "k").Seen
	release(t, l, 0)
	acquire(t, b, request("k", lasting))
	for _, s := range []string{seen, kept, ""} {
		if err := b.AwaitRelease(bounded(t, watchdog), "k", s); err != nil {
			t.Errorf("seen %q: %v", s, err)
		}
	}
	if err := b.AwaitRelease(bounded(t, watchdog), "free", "1"); err != nil {
		t.Errorf("a free key: %v", err)
	}
}

func TestBackend_AwaitRelease_WorksOnAHandleOfOneConnection(t *testing.T) {
	db := handle(t, newPath(t))
	db.SetMaxOpenConns(1)
	b := sqlleader.New(db, sqlleader.SQLite(), &sqlleader.Options{CreateTable: true})
	t.Cleanup(func() { _ = b.Close() })
	l := acquire(t, b, request("k", lasting))
	done := await(t, b, "k", inspect(t, b, "k").Seen)
	if err := l.Renew(bounded(t, watchdog), lasting); err != nil {
		t.Fatalf("Renew beside a waiter: %v", err)
	}
	release(t, l, 0)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestBackend_AwaitRelease_EndsWithContextAndClose(t *testing.T) {
	path := newPath(t)
	b := open(t, path)
	acquire(t, b, request("k", lasting))
	seen := inspect(t, b, "k").Seen
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := b.AwaitRelease(ctx, "k", seen); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("AwaitRelease: %v", err)
	}
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("returned after %v", d)
	}
	done := await(t, b, "k", seen)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after Close: %v", err)
	}
	if polling() {
		t.Error("the poller outlives Close")
	}
}

func TestBackend_AwaitRelease_GoesOnUnderAStrangersWriteLock(t *testing.T) {
	path := newPath(t)
	b := open(t, path)
	l := acquire(t, b, request("k", lasting))
	done := await(t, b, "k", inspect(t, b, "k").Seen)
	unlock := lockFile(t, path)
	time.Sleep(100 * time.Millisecond)
	select {
	case err := <-done:
		t.Fatalf("the lock ended the wait: %v", err)
	default:
	}
	unlock()
	release(t, l, 0)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
