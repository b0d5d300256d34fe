package sqliteleader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

// lockFile holds the write lock of the file until unlock is called.
func lockFile(t *testing.T, path string) (unlock func()) {
	t.Helper()
	conn, err := handle(t, path).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
			t.Errorf("rollback: %v", err)
		}
		if err := conn.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func TestBackend_StrangersWriteLock_EndsWithTheContext(t *testing.T) {
	path := newPath(t)
	b := open(t, path)
	l := acquire(t, b, request("k", lasting))
	unlock := lockFile(t, path)
	const bound = 60 * time.Millisecond
	for what, call := range map[string]func(context.Context) error{
		"TryAcquire": func(ctx context.Context) error {
			_, err := b.TryAcquire(ctx, request("free", lasting))
			return err
		},
		"Abandon": func(ctx context.Context) error { return b.Abandon(ctx, request("free", lasting)) },
		"Renew":   func(ctx context.Context) error { return l.Renew(ctx, lasting) },
		"Release": func(ctx context.Context) error { return l.Release(ctx, 0) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		begin := time.Now()
		err := call(ctx)
		d := time.Since(begin)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || backend.KindOf(err) != backend.Unavailable {
			t.Errorf("%s: %v", what, err)
		}
		if d > 2*time.Second {
			t.Errorf("%s returned %v after the call, bound %v", what, d, bound)
		}
	}
	unlock()
	if err := l.Renew(t.Context(), lasting); err != nil {
		t.Errorf("Renew after the lock: %v", err)
	}
	if h := inspect(t, b, "free"); !h.Free() {
		t.Errorf("an attempt was applied later: %+v", h)
	}
	acquire(t, b, request("free", lasting))
}

func TestBackend_StrangersWriteLock_IsUnavailableAndSparesReaders(t *testing.T) {
	path := newPath(t)
	b := open(t, path)
	l := acquire(t, b, request("k", lasting))
	unlock := lockFile(t, path)
	begin := time.Now()
	if err := l.Renew(t.Context(), lasting); backend.KindOf(err) != backend.Unavailable || errors.Is(err, backend.ErrLost) {
		t.Errorf("Renew: %v", err)
	}
	_, err := b.TryAcquire(t.Context(), request("free", lasting))
	if backend.KindOf(err) != backend.Unavailable || errors.Is(err, backend.ErrHeld) {
		t.Errorf("TryAcquire: %v", err)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("two calls took %v", d)
	}
	begin = time.Now()
	for range 20 {
		wantHeld(t, b, "k")
		inspect(t, b, "k")
	}
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("40 reads took %v", d)
	}
	unlock()
	acquire(t, b, request("free", lasting))
}

func TestBackend_StrangersWriteLock_CrowdsRecoverAtItsEnd(t *testing.T) {
	path := newPath(t)
	b := open(t, path)
	const crowd = 64
	leases := make([]backend.Lease, crowd)
	for i := range leases {
		req := request("k", lasting)
		req.Key += req.Token
		leases[i] = acquire(t, b, req)
	}
	unlock := lockFile(t, path)
	locked := time.Now().Add(600 * time.Millisecond)
	done := make(chan error, crowd)
	for _, l := range leases {
		go func() {
			for {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				err := l.Renew(ctx, lasting)
				cancel()
				if err == nil || backend.KindOf(err) != backend.Unavailable {
					done <- err
					return
				}
			}
		}()
	}
	time.Sleep(time.Until(locked))
	unlock()
	limit := bounded(t, 3*time.Second)
	for range crowd {
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Renew: %v", err)
			}
		case <-limit.Done():
			t.Fatal("renewals did not recover within 3 s of the lock's end")
		}
	}
}
