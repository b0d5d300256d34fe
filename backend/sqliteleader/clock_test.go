package sqliteleader_test

import (
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

func TestBackend_TryAcquire_WaitsOutARowOfAnotherBoot(t *testing.T) {
	path := newPath(t)
	const ttl = 300 * time.Millisecond
	before := openOn(t, path, &machine{name: "before"})
	// By the next boot's clock the lease is long over.
	after := openOn(t, path, &machine{name: "after", ahead: lasting})
	old := acquire(t, before, request("k", ttl))

	begin := time.Now()
	if h := wantHeld(t, after, "k"); h.Fence != old.Fence() || h.Remaining <= 0 || h.Remaining > ttl {
		t.Errorf("holder at first sight = %+v", h)
	}
	var next backend.Lease
	eventually(t, 5*time.Second, "take-over", func() bool {
		l, err := after.TryAcquire(t.Context(), request("k", lasting))
		next = l
		return err == nil
	})
	if d := time.Since(begin); d < ttl {
		t.Errorf("taken over %v after the first look", d)
	}
	if next.Fence() <= old.Fence() {
		t.Errorf("fence %d follows %d", next.Fence(), old.Fence())
	}
}

func TestBackend_TryAcquire_SeesALiveHolderOfAnotherBoot(t *testing.T) {
	path := newPath(t)
	const ttl = time.Second
	one := openOn(t, path, &machine{name: "one"})
	two := openOn(t, path, &machine{name: "two", ahead: lasting})
	l := acquire(t, one, request("k", ttl))
	for end := time.Now().Add(5 * ttl / 2); time.Now().Before(end); time.Sleep(ttl / 20) {
		if err := l.Renew(t.Context(), ttl); err != nil {
			t.Fatalf("Renew: %v", err)
		}
		wantHeld(t, two, "k")
	}
}

func TestBackend_TryAcquire_TakesWhatWasReleasedInAnotherBoot(t *testing.T) {
	path := newPath(t)
	one := openOn(t, path, &machine{name: "one", ahead: lasting})
	two := openOn(t, path, &machine{name: "two"})
	release(t, acquire(t, one, request("k", lasting)), 0)
	acquire(t, two, request("k", lasting))
	release(t, acquire(t, one, request("kept", lasting)), lasting)
	if h := wantHeld(t, two, "kept"); !h.Kept {
		t.Errorf("holder = %+v", h)
	}
}

// Each attempt is made by a process that lives shorter than the lease.
func TestBackend_TryAcquire_RemembersAnotherBootAcrossProcesses(t *testing.T) {
	path := newPath(t)
	const ttl = 300 * time.Millisecond
	acquire(t, openOn(t, path, &machine{name: "before"}), request("k", ttl))
	begin := time.Now()
	eventually(t, 5*time.Second, "take-over", func() bool {
		_, err := openOn(t, path, &machine{name: "after"}).TryAcquire(t.Context(), request("k", lasting))
		return err == nil
	})
	if d := time.Since(begin); d < ttl {
		t.Errorf("taken over %v after the first look", d)
	}
}

func TestBackend_TryAcquire_ForgetsTheNoteWhenTheHolderRenews(t *testing.T) {
	path := newPath(t)
	const ttl = time.Second
	l := acquire(t, openOn(t, path, &machine{name: "one"}), request("k", ttl))
	wantHeld(t, openOn(t, path, &machine{name: "two"}), "k")
	time.Sleep(ttl / 4)
	if err := l.Renew(t.Context(), lasting); err != nil {
		t.Fatalf("Renew: %v", err)
	}
	time.Sleep(ttl)
	if h := wantHeld(t, openOn(t, path, &machine{name: "two"}), "k"); h.Remaining < lasting-time.Minute {
		t.Errorf("remaining = %v", h.Remaining)
	}
}
