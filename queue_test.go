package leader_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
)

func TestQueue_ServesCallersInTheOrderInWhichTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		e := electorOn(t, d)
		var j journal
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				_, err := e.RunIfLeader(t.Context(), "a", func(context.Context) error {
					j.add(strconv.Itoa(i))
					time.Sleep(time.Second)
					return nil
				}, leader.WithWaitTime(time.Hour))
				if err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		if got := j.String(); got != "0, 1, 2, 3, 4, 5, 6, 7, 8, 9" {
			t.Errorf("served in the order %s", got)
		}
		if n := d.count(acquires); n != 10 {
			t.Errorf("%d requests for 10 leases, want 10", n)
		}
	})
}

func TestQueue_HandsOverWithoutDelayWithinOneElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := electorOn(t, newDriver())
		began := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if r, err := e.RunIfLeader(t.Context(), "a", works(time.Second), leader.WithWaitTime(time.Hour)); err != nil || !r.OK() {
					t.Errorf("got %v, %v, want elected", r, err)
				}
			})
		}
		wg.Wait()
		wantAt(t, "done", time.Since(began), 10*time.Second, 0)
	})
}

func TestQueue_OnlyItsHeadTalksToTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := func(callers int) int {
			d := newDriver()
			occupy(t, d.store, "a", time.Hour)
			e := electorOn(t, d)
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					r, err := e.RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(10*time.Minute))
					if err != nil || r.Reason != leader.Contended {
						t.Errorf("got %v, %v, want a skip", r, err)
					}
				})
			}
			wg.Wait()
			return d.count()
		}
		one, hundred := requests(1), requests(100)
		if hundred > one*3/2 {
			t.Errorf("%d requests by 100 callers, and %d by one", hundred, one)
		}
	})
}

func TestQueue_ACallerThatDoesNotWaitIsSkippedWithoutARequestWhileALocalHolderTrusts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		e := electorOn(t, d, leader.WithNodeID("me"))
		l := acquired(t, e)
		before := d.count()
		r, err := e.RunIfLeader(t.Context(), "a", nothing)
		if err != nil || r.Outcome != leader.Skipped || r.Reason != leader.Contended || r.Attempts != 0 {
			t.Fatalf("got %v, %v, want a skip", r, err)
		}
		if r.Holder.Node != "me" || r.Holder.Fence != l.Info().Fence {
			t.Errorf("holder %+v, want this elector with fence %d", r.Holder, l.Info().Fence)
		}
		if n := d.count() - before; n != 0 {
			t.Errorf("%d requests, want none", n)
		}
	})
}

func TestQueue_ACallerThatDoesNotWaitAsksTheStoreWhereTheLocalHolderTrustsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		e := electorOn(t, d)
		l := acquired(t, e, leader.WithoutAutoExtend())
		time.Sleep(lease)
		wantIs(t, l.Err(), leader.ErrExpired)
		if r, err := e.RunIfLeader(t.Context(), "a", nothing); err != nil || !r.OK() {
			t.Errorf("got %v, %v, want elected", r, err)
		}
	})
}

func TestQueue_AWaitingCallerTakesOverFromALocalHolderThatLostItsLeaseAndDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.first(100, renews, fails(errDown))
		e := electorOn(t, d)
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			r, err := e.RunIfLeader(t.Context(), "a", works(time.Hour))
			if err != nil || r.Lost == nil {
				t.Errorf("got %v, %v, want lost", r, err)
			}
		})
		time.Sleep(time.Second)
		wg.Go(func() {
			_, err := e.RunIfLeader(t.Context(), "a", func(context.Context) error {
				wantAt(t, "the next leads", time.Since(began), lease, 3*time.Second)
				return nil
			}, leader.WithWaitTime(10*time.Minute))
			if err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
	})
}

func TestQueue_OneAcquisitionOfANameIsOutstandingWhereCallsOutliveTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := make(chan struct{})
		d := newDriver()
		d.limits.Blocking = true
		d.onVerb(acquires, stuck(freed))
		e := electorOn(t, d)
		for range 100 {
			_, err := e.RunIfLeader(t.Context(), "a", nothing)
			wantIs(t, err, leader.ErrUnavailable)
		}
		if n := d.count(acquires); n != 1 {
			t.Errorf("%d acquisitions outstanding, want 1", n)
		}
		close(freed)
		synctest.Wait()
		d.on(nil)
		if r, err := e.RunIfLeader(t.Context(), "a", nothing); err != nil || !r.OK() {
			t.Errorf("got %v, %v after the store answered, want elected", r, err)
		}
	})
}

func TestQueue_ACallerBehindABlockedAcquisitionEndsAtItsOwnBound(t *testing.T) {
	for _, wait := range []time.Duration{0, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			freed := make(chan struct{})
			d := newDriver()
			d.limits.Blocking = true
			d.onVerb(acquires, stuck(freed))
			e := electorOn(t, d)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					began := time.Now()
					_, err := e.RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(wait))
					wantIs(t, err, leader.ErrUnavailable)
					if took := time.Since(began); took > wait+attemptBound+100*time.Millisecond {
						t.Errorf("took %v, want at most the wait of %v and one attempt", took, wait)
					}
				})
				time.Sleep(time.Millisecond)
			}
			wg.Wait()
			close(freed)
		})
	}
}

func TestQueue_CallersOfAStoreThatIsDownEndWithinTheWaitAndOneAttempt(t *testing.T) {
	for _, wait := range []time.Duration{0, 100 * time.Millisecond, 3 * time.Second, 10 * time.Second} {
		t.Run(wait.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				d.on(func(request) answer { return hangs })
				e := electorOn(t, d)
				var wg sync.WaitGroup
				for i := range 4 {
					wg.Go(func() {
						began := time.Now()
						_, err := e.RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(wait))
						wantIs(t, err, leader.ErrUnavailable)
						if took := time.Since(began); took > wait+attemptBound+100*time.Millisecond {
							t.Errorf("caller %d took %v, want at most the wait of %v and one attempt", i, took, wait)
						}
					})
					time.Sleep(100 * time.Millisecond)
				}
				wg.Wait()
				time.Sleep(2 * lease) // until nobody cleans up any more
			})
		})
	}
}

func TestQueue_ACallerWhoseWaitEndsBehindASlowAttemptIsNotToldThatTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(acquires, answersAfter(time.Second))
		e := electorOn(t, d)
		var wg sync.WaitGroup
		wg.Go(func() {
			if r, err := e.RunIfLeader(t.Context(), "a", works(10*time.Second), leader.WithWaitTime(time.Minute)); err != nil || !r.OK() {
				t.Errorf("got %v, %v, want elected", r, err)
			}
		})
		time.Sleep(time.Millisecond)
		wg.Go(func() {
			r, err := e.RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(500*time.Millisecond))
			if err != nil || r.Reason != leader.Contended {
				t.Errorf("got %v, %v, want a skip: the store answers, if slowly", r, err)
			}
		})
		wg.Wait()
	})
}

func TestQueue_ACallerThatNeverCameToItsHeadIsSkippedLikeTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		occupy(t, d.store, "a", time.Hour)
		e := electorOn(t, d)
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				r, err := e.RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Minute-time.Duration(i)*time.Second))
				if err != nil || r.Reason != leader.Contended || r.Holder.Node != "somebody else" {
					t.Errorf("got %v, %v, want a skip that names the holder", r, err)
				}
			})
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
	})
}

func TestQueue_AWaiterThatGivesUpLetsTheNextOneTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		other := occupy(t, d.store, "a", time.Hour)
		e := electorOn(t, d)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := e.RunIfLeader(ctx, "a", nothing, leader.WithWaitTime(time.Hour))
			wantIs(t, err, context.Canceled)
		})
		time.Sleep(time.Millisecond)
		wg.Go(func() {
			if r, err := e.RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Hour)); err != nil || !r.OK() {
				t.Errorf("got %v, %v, want elected", r, err)
			}
		})
		time.Sleep(time.Minute)
		cancel()
		time.Sleep(time.Minute)
		_ = other.Release(t.Context(), 0)
		wg.Wait()
	})
}

func TestElector_RunIfLeader_RefusesToRunInsideItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		e := electorOn(t, d)
		type key struct{}
		r, err := e.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
			derived, cancel := context.WithTimeout(context.WithValue(ctx, key{}, 1), time.Hour)
			defer cancel()
			before := d.count()
			_, nested := e.RunIfLeader(derived, "b", func(ctx context.Context) error {
				for _, ctx := range []context.Context{ctx, derived, context.WithoutCancel(ctx)} {
					_, err := e.RunIfLeader(ctx, "a", nothing, leader.WithWaitTime(time.Hour))
					wantIs(t, err, leader.ErrReentrant)
					_, err = e.Acquire(ctx, "a")
					wantIs(t, err, leader.ErrReentrant)
					wantIs(t, e.Campaign(ctx, "a", nothing), leader.ErrReentrant)
				}
				return nil
			})
			if n := d.count() - before; n != 2 {
				t.Errorf("%d requests, want the two of the other name", n)
			}
			return nested
		})
		if err != nil || !r.OK() {
			t.Errorf("got %v, %v, want elected", r, err)
		}
	})
}

func TestElector_RunIfLeader_RunsAgainWithTheContextOfAnActionThatReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := electorOn(t, newDriver())
		var kept context.Context
		if _, err := e.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
			kept = context.WithoutCancel(ctx)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if r, err := e.RunIfLeader(kept, "a", nothing); err != nil || !r.OK() {
			t.Errorf("got %v, %v, want elected", r, err)
		}
	})
}

func TestElector_RunIfLeader_AnotherElectorMayAskInsideTheAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		one, two := electorOn(t, d), electorOn(t, driverOf(d.store))
		_, err := one.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
			r, err := two.RunIfLeader(ctx, "a", nothing)
			if err != nil || r.Reason != leader.Contended {
				t.Errorf("got %v, %v, want a skip", r, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestElectors_WithOneNodeIDExcludeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		acquired(t, electorOn(t, d, leader.WithNodeID("twin")))
		_, err := electorOn(t, driverOf(d.store), leader.WithNodeID("twin")).Acquire(t.Context(), "a")
		if !errors.Is(err, leader.ErrNotElected) {
			t.Errorf("got %v, want not elected", err)
		}
	})
}
