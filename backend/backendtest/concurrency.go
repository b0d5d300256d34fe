package backendtest

import (
	"errors"
	"strconv"
	"sync"

	"github.com/goleader/leader/backend"
)

func concurrencyCases() []testCase {
	return []testCase{
		{
			name: "Concurrency_HasOneWinner",
			rule: ruleConcurrency,
			says: "of fifty attempts at the same time exactly one gets a free key, and the others find it held",
			run:  hasOneWinner,
		},
		{
			name: "Concurrency_JoinsRepeats",
			rule: ruleConcurrency,
			says: "attempts with one token at the same time get one fence",
			run:  joinsRepeats,
		},
		{
			name: "Concurrency_RenewsBesideRelease",
			rule: ruleConcurrency,
			says: "renewals that overlap the release of their lease neither fail it nor bring the lease back",
			run:  renewsBesideRelease,
		},
		{
			name: "Concurrency_KeepsKeysApart",
			rule: ruleConcurrency,
			says: "calls for different keys at the same time do not meet",
			run:  keepsKeysApart,
		},
	}
}

func hasOneWinner(t *caseT) {
	a, b := t.pair()
	for round := range 5 {
		key := "round-" + strconv.Itoa(round)
		wins := make(chan grant, 50)
		t.together(50, func(i int) {
			d := a
			if i%2 == 1 {
				d = b
			}
			g, err := t.try(d, t.request(key, t.long()))
			switch {
			case err == nil:
				wins <- g
			case !errors.Is(err, backend.ErrHeld):
				t.Errorf("TryAcquire(%q): %v, want success or ErrHeld", key, err)
			}
		})
		if len(wins) != 1 {
			t.Fatalf("%d of 50 attempts got %q, want one", len(wins), key)
		}
		t.renewed(<-wins, t.long())
	}
}

func joinsRepeats(t *caseT) {
	a, _ := t.pair()
	for round := range 5 {
		req := t.request("round-"+strconv.Itoa(round), t.long())
		fences := make(chan uint64, 8)
		t.together(cap(fences), func(int) { fences <- t.win(a, req).Fence() })
		if len(fences) != cap(fences) {
			return // a failure was reported
		}
		first := <-fences
		for range cap(fences) - 1 {
			if f := <-fences; f != first {
				t.Fatalf("one token got the fences %d and %d", first, f)
			}
		}
	}
}

func renewsBesideRelease(t *caseT) {
	a, b := t.pair()
	for range 10 {
		g := t.win(a, t.request("job", t.long()))
		t.together(9, func(i int) {
			if i == 0 {
				t.release(g, 0)
				return
			}
			for range 3 {
				if err := g.Renew(t.Context(), t.long()); err != nil && !errors.Is(err, backend.ErrLost) {
					t.Errorf("Renew beside Release: %v, want nil or ErrLost", err)
				}
			}
		})
		t.lost(g)
		t.free(b, "job")
	}
}

func keepsKeysApart(t *caseT) {
	a, b := t.pair()
	t.together(8, func(i int) {
		mine, theirs := a, b
		if i%2 == 1 {
			mine, theirs = b, a
		}
		for round := range 5 {
			g := t.win(mine, t.request("key-"+strconv.Itoa(i)+"-"+strconv.Itoa(round), t.long()))
			if h := t.inspect(theirs, g.req.Key); h.Owner != g.req.Owner || h.Fence != g.Fence() {
				t.Errorf("Inspect(%q) = %+v, want owner %q, fence %d", g.req.Key, h, g.req.Owner, g.Fence())
			}
			t.renewed(g, t.long())
			t.release(g, 0)
			t.free(theirs, g.req.Key)
		}
	})
}

// together runs f n times at the same time and waits for all.
func (t *caseT) together(n int, f func(i int)) {
	var running sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		running.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	running.Wait()
}
