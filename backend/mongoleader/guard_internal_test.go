package mongoleader

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

// The condition of Guard, without a transaction, which the server under test does not know.
func TestBackend_Guard_MatchesTheCurrentLeaseAlone(t *testing.T) {
	b, _ := onBus(t)
	l := acquire(t, b, "a")
	for range 2 {
		if err := b.guard(t.Context(), "a", l.Fence()); err != nil {
			t.Fatalf("under the lease: %v", err)
		}
		if err := l.Renew(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	lost := func(when, key string, fence uint64) {
		t.Helper()
		if err := b.guard(t.Context(), key, fence); !errors.Is(err, leader.ErrLeaseLost) {
			t.Errorf("%s: %v, want ErrLeaseLost", when, err)
		}
	}
	lost("under another fence", "a", l.Fence()-1)
	lost("of a key without a document", "b", l.Fence())
	if err := l.Release(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	lost("while the key is kept", "a", l.Fence())
	if err := l.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	lost("after the release", "a", l.Fence())
	next := acquire(t, b, "a")
	lost("under a successor", "a", l.Fence())
	if err := b.guard(t.Context(), "a", next.Fence()); err != nil {
		t.Errorf("of the successor: %v", err)
	}
	req := backend.Request{Key: "short", Token: rand.Text(), TTL: minTTL}
	short, err := b.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * minTTL) // its end
	lost("after the end", "short", short.Fence())
}
