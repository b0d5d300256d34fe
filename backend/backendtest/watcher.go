package backendtest

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/goleader/leader/backend"
)

func watcherCases() []testCase {
	return []testCase{
		{
			name: "Watcher_FollowsTheHolder",
			rule: abilityWatcher,
			says: "Watch yields the holder now and the newest after each change",
			run:  followsTheHolder,
		},
		{
			name: "Watcher_EndsWithItsContext",
			rule: abilityWatcher,
			says: "Watch yields an error that wraps its context's, and ends, soon after that ends",
			run:  watchEndsWithItsContext,
		},
		{
			name: "Watcher_MayBeLeft",
			rule: abilityWatcher,
			says: "a loop over Watch may be left at any time",
			run:  mayBeLeft,
		},
	}
}

// watcher returns the ability of d. A driver may learn that its store tells nobody only when it is asked.
func (t *caseT) watcher(d backend.Driver) backend.Watcher {
	t.Helper()
	w := ability[backend.Watcher](t, d)
	ctx, cancel := context.WithTimeout(t.Context(), t.ttl())
	defer cancel()
	select {
	case first := <-t.watch(ctx, w, "asked"):
		if errors.Is(first.err, errors.ErrUnsupported) {
			t.lack(d.Name() + " does not offer the ability Watcher here")
		}
	case <-ctx.Done(): // it does not say so at least
	}
	return w
}

// A sight is what Watch yields.
type sight struct {
	holder backend.Holder
	err    error
}

// watch runs Watch aside. The channel is closed at its end.
func (t *caseT) watch(ctx context.Context, w backend.Watcher, key string) <-chan sight {
	sights := make(chan sight, 1000)
	go func() {
		defer close(sights)
		for h, err := range w.Watch(ctx, key) {
			sights <- sight{h, err}
		}
	}()
	return sights
}

// sees waits until a watcher has seen what is wanted.
func (t *caseT) sees(sights <-chan sight, what string, want func(h backend.Holder) bool) {
	t.Helper()
	timer := time.NewTimer(t.patience)
	defer timer.Stop()
	var last backend.Holder
	for {
		select {
		case s, ok := <-sights:
			switch {
			case !ok:
				t.Fatalf("Watch ended, want it to yield %s", what)
			case s.err != nil:
				t.Fatalf("Watch yields %v, want %s", s.err, what)
			case want(s.holder):
				return
			}
			last = s.holder
		case <-timer.C:
			t.Fatalf("Watch has yielded nothing new for %v since %+v, want %s", t.patience, last, what)
		}
	}
}

func followsTheHolder(t *caseT) {
	a, b := t.pair()
	w := t.watcher(b)
	early := t.watch(t.Context(), w, "job")
	t.sees(early, "a free key", backend.Holder.Free)
	for range 5 {
		g := t.win(a, t.request("job", t.long()))
		holds := func(h backend.Holder) bool { return h.Owner == g.req.Owner && h.Fence == g.Fence() && !h.Kept }
		t.sees(early, "the holder "+g.req.Owner, holds)
		late := t.watch(t.Context(), w, "job")
		t.sees(late, "the holder "+g.req.Owner+" from the start", holds)
		t.release(g, 0)
		t.sees(early, "a free key", backend.Holder.Free)
		t.sees(late, "a free key", backend.Holder.Free)
	}
}

func watchEndsWithItsContext(t *caseT) {
	a, b := t.pair()
	w := t.watcher(b)
	t.win(a, t.request("job", t.long()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sights := t.watch(ctx, w, "job")
	t.sees(sights, "a holder", func(h backend.Holder) bool { return !h.Free() })
	cancel()
	t.promptly("Watch ends after its context ended", func() {
		var last sight
		for s := range sights {
			last = s
		}
		if !errors.Is(last.err, context.Canceled) {
			t.Errorf("Watch yields %v last, want an error that wraps %q", orSuccess(last.err), context.Canceled)
		}
	})
}

func mayBeLeft(t *caseT) {
	a, b := t.pair()
	w := t.watcher(b)
	for i := range 20 {
		key := "job-" + strconv.Itoa(i)
		t.promptly("a loop over Watch that is left at the first holder ends", func() {
			for _, err := range w.Watch(t.Context(), key) {
				if err != nil {
					t.Errorf("Watch yields %v first, want a holder", err)
				}
				break
			}
		})
		t.release(t.win(a, t.request(key, t.long())), 0)
	}
}
