package leader_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

func TestUnknownOutcome_ALeaseWhoseAnswerWasLostIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.first(1, acquires, losesAnswer(errStrange))
		var granted atomic.Uint64
		e := electorOn(t, d)
		time.AfterFunc(time.Millisecond, func() { granted.Store(holderOf(t, d.store, "a").Fence) })
		r, err := e.RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Minute))
		if err != nil || !r.OK() {
			t.Fatalf("got %v, %v, want elected", r, err)
		}
		if want := granted.Load(); want == 0 || r.Lease.Fence != want {
			t.Errorf("fence %d, want that of the lost answer, %d", r.Lease.Fence, want)
		}
		if log := d.log(acquires); len(log) != 2 || log[0].token != log[1].token {
			t.Errorf("got %v, want one repetition with the same token", log)
		}
		if n := d.count(abandons); n != 0 {
			t.Errorf("%d abandons of an adopted lease, want none", n)
		}
	})
}

func TestUnknownOutcome_AnAdoptedLeaseIsTrustedFromTheLastRequestOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.first(1, acquires, losesAnswer(errStrange))
		end, _ := endOf(t, electorOn(t, d), leader.WithWaitTime(time.Minute), leader.WithoutAutoExtend())
		if want := d.log(acquires)[1].at + deadline; end != want {
			t.Errorf("trusted until %v, want %v", end, want)
		}
	})
}

func TestUnknownOutcome_AGivenUpAcquisitionIsAbandonedUntilTheStoreAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.on(func(r request) answer {
			switch {
			case r.verb == acquires:
				return losesAnswer(errDown)
			case r.verb == abandons && r.at < 20*time.Second:
				return fails(errDown)
			}
			return nil
		})
		began := time.Now()
		_, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing)
		wantIs(t, err, leader.ErrUnavailable)
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("the caller waited %v for the clean-up", took)
		}
		if holderOf(t, d.store, "a").Free() {
			t.Error("nothing was left behind, so that this test shows nothing")
		}
		time.Sleep(25 * time.Second)
		wantFree(t, d.store, "a")
		log := d.log(acquires, abandons)
		for _, r := range log {
			if r.token != log[0].token {
				t.Errorf("abandoned another token: %v", log)
			}
		}
		if n := len(log); n < 8 || n > 200 {
			t.Errorf("%d requests, want a growing backoff up to 2s", n)
		}
		if last := log[len(log)-1].at; last > 22*time.Second {
			t.Errorf("abandoned again at %v although the store had answered", last)
		}
	})
}

func TestUnknownOutcome_AbandoningEndsWithTheLeaseTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.on(func(request) answer { return fails(errDown) })
		_, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing)
		wantIs(t, err, leader.ErrUnavailable)
		time.Sleep(time.Hour)
		log := d.log(abandons)
		if last := log[len(log)-1].at; last < lease-3*time.Second || last > lease {
			t.Errorf("abandoned for the last time at %v, want shortly before %v", last, lease)
		}
	})
}

func TestUnknownOutcome_AbandoningEndsWithARefusalThatTryingAgainWouldNotMend(t *testing.T) {
	for _, refusal := range []error{errDenied, errForeign} {
		synctest.Test(t, func(t *testing.T) {
			d := newDriver()
			d.on(func(request) answer { return fails(refusal) })
			_, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing)
			wantIs(t, err, refusal)
			time.Sleep(2 * lease)
			if n := d.count(abandons); n > 1 {
				t.Errorf("%v: %d abandons, want one at most", refusal, n)
			}
		})
	}
}

func TestUnknownOutcome_AnAcquisitionThatArrivesAfterItsAbandonOpensNoTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(acquires, func(_ context.Context, apply func() error) error {
			time.AfterFunc(time.Second, func() {
				if err := apply(); err == nil {
					t.Error("the late request opened a term")
				}
			})
			return errDown
		})
		_, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing)
		wantIs(t, err, leader.ErrUnavailable)
		time.Sleep(2 * time.Second)
		wantFree(t, d.store, "a")
	})
}

func TestUnknownOutcome_AnAnswerThatComesAfterTheCallerGaveUpIsFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.limits.Blocking = true
		d.onVerb(acquires, arrivesAfter(30*time.Second))
		_, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing)
		wantIs(t, err, leader.ErrUnavailable)
		time.Sleep(31 * time.Second)
		wantFree(t, d.store, "a")
	})
}

func TestUnknownOutcome_AStuckAcquisitionIsTakenOverByTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.limits.Blocking = true
		d.first(1, acquires, answersAfter(10*time.Second))
		began := time.Now()
		r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Minute))
		if err != nil || !r.OK() {
			t.Fatalf("got %v, %v, want elected", r, err)
		}
		wantAt(t, "elected", time.Since(began), 11*time.Second, 1100*time.Millisecond)
		if log := d.log(acquires); len(log) != 2 || log[0].token != log[1].token {
			t.Errorf("got %v, want one repetition with the same token", log)
		}
	})
}

func TestUnknownOutcome_ASpentTokenIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.first(1, acquires, fails(backend.ErrLost))
		r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Minute))
		if err != nil || !r.OK() {
			t.Fatalf("got %v, %v, want elected", r, err)
		}
		if log := d.log(acquires); log[0].token == log[1].token {
			t.Error("a token that the store says is spent was sent again")
		}
	})
}

func TestTokens_AreNewForEachAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		e := electorOn(t, d)
		seen := make(map[string]bool)
		for range 1000 {
			if _, err := e.RunIfLeader(t.Context(), "a", nothing); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range d.log(acquires) {
			if seen[r.token] || len(r.token) != 26 {
				t.Fatalf("token %q: used before, or not 26 characters", r.token)
			}
			seen[r.token] = true
		}
	})
}

// A bubble that still has goroutines when its test returns is a failure.

func TestCancelledAcquisitions_LeaveNoKeyAndNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.on(func(r request) answer {
			return func(ctx context.Context, apply func() error) error {
				delay := rand.N(20 * time.Millisecond)
				select {
				case <-time.After(delay):
				case <-ctx.Done():
					if rand.N(2) == 0 {
						return ctx.Err() // never arrived
					}
				}
				err := apply()
				select {
				case <-time.After(delay):
					return err
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
		e := electorOn(t, d)
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(50*time.Millisecond))
				defer cancel()
				_, err := e.RunIfLeader(ctx, fmt.Sprint("name ", i%100), func(ctx context.Context) error {
					if h := holderOf(t, d.store, fmt.Sprint("name ", i%100)); h.Free() {
						t.Error("elected, but the store does not know")
					}
					return untilDone(ctx)
				}, leader.WithWaitTime(time.Second))
				if err != nil {
					wantIs(t, err, context.DeadlineExceeded)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		for i := range 100 {
			wantFree(t, d.store, fmt.Sprint("name ", i))
		}
	})
}

func TestElector_OwnsNoGoroutineWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		e := electorOn(t, hinting{driver: d})
		leadMany(t, e, 100, 2*lease)
		synctest.Wait()
	})
}
