package leader_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

// endOf runs an action that works until its context ends, and returns when that was and how the run went.
func endOf(t *testing.T, e leader.Runner, opts ...leader.RunOption) (time.Duration, leader.RunResult) {
	t.Helper()
	began := time.Now()
	var end time.Duration
	r, err := e.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
		<-ctx.Done()
		end = time.Since(began)
		return context.Cause(ctx)
	}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return end, r
}

func TestTrust_EndsAtTheLeaseTimeMinusTheMargin(t *testing.T) {
	rows := []struct{ lease, want time.Duration }{
		{40 * time.Millisecond, 20 * time.Millisecond}, // half of the lease
		{100 * time.Millisecond, 50 * time.Millisecond},
		{200 * time.Millisecond, 150 * time.Millisecond}, // 50 ms
		{time.Second, 900 * time.Millisecond},            // a tenth
		{10 * time.Second, 9 * time.Second},
		{time.Minute, 58 * time.Second},                // 2 s
		{time.Hour, time.Hour - 3600*time.Millisecond}, // a thousandth
	}
	for _, row := range rows {
		t.Run(row.lease.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := electorOn(t, newDriver())
				end, r := endOf(t, e, leader.WithLeaseTime(row.lease), leader.WithoutAutoExtend())
				if end != row.want {
					t.Errorf("the context ended after %v, want %v", end, row.want)
				}
				wantIs(t, r.Err, leader.ErrLeaseLost, leader.ErrExpired)
				wantIs(t, r.Lost, leader.ErrLeaseLost, leader.ErrExpired)
			})
		})
	}
}

func TestTrust_EndsAtAnExplicitMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := electorOn(t, newDriver(), leader.WithSafetyMargin(7*time.Second))
		end, _ := endOf(t, e, leader.WithoutAutoExtend())
		if want := lease - 7*time.Second; end != want {
			t.Errorf("the context ended after %v, want %v", end, want)
		}
	})
}

func TestTrust_IsCountedFromBeforeTheAcquisitionWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(acquires, answersAfter(30*time.Second))
		end, _ := endOf(t, electorOn(t, d), leader.WithoutAutoExtend())
		if end != deadline {
			t.Errorf("the context ended after %v, want %v", end, deadline)
		}
	})
}

func TestTrust_IsCountedFromBeforeTheRenewalWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.on(func(r request) answer {
			switch {
			case r.verb != renews:
				return nil
			case r.n == 1:
				return answersAfter(10 * time.Second)
			}
			return hangs
		})
		end, _ := endOf(t, electorOn(t, d))
		if want := d.log(renews)[0].at + deadline; end != want {
			t.Errorf("the context ended after %v, want %v", end, want)
		}
	})
}

func TestTrust_EndsWithoutAnyAnswerFromTheStore(t *testing.T) {
	for _, blocking := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			freed := make(chan struct{})
			defer close(freed)
			d := newDriver()
			d.limits.Blocking = blocking
			d.onVerb(renews, stuck(freed))
			end, r := endOf(t, electorOn(t, d))
			if end != deadline {
				t.Errorf("the context ended after %v, want %v", end, deadline)
			}
			wantIs(t, r.Lost, leader.ErrLeaseLost, leader.ErrExpired)
		})
	}
}

func TestTrust_TheCauseTellsWhyRenewingFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(renews, fails(errDown))
		_, r := endOf(t, electorOn(t, d))
		wantIs(t, r.Lost, leader.ErrLeaseLost, leader.ErrExpired, errDown)
	})
}

func TestTrust_IsNeverMovedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		l, err := electorOn(t, d).Acquire(t.Context(), "a", leader.WithoutAutoExtend())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Release(t.Context()) }()
		before := l.TrustedUntil()
		if err := l.Extend(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		if got := l.TrustedUntil(); !got.Equal(before) {
			t.Errorf("a short extension moved the trust deadline from %v to %v", before, got)
		}
		time.Sleep(deadline - time.Nanosecond)
		if l.Err() != nil {
			t.Errorf("lost before the trust deadline: %v", l.Err())
		}
	})
}

func TestTrust_AnOlderAnswerThatComesLaterMovesNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.on(func(r request) answer {
			switch {
			case r.verb != renews:
				return nil
			case r.n == 1:
				return answersAfter(25 * time.Second) // after the second one's
			case r.n == 2:
				return nil
			}
			return hangs
		})
		end, _ := endOf(t, electorOn(t, d))
		if want := d.log(renews)[1].at + deadline; end != want {
			t.Errorf("the context ended after %v, want %v", end, want)
		}
	})
}

func TestTrust_ARenewalAnsweredAfterTheDeadlineIsNotTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(renews, answersAfter(lease-10*time.Second))
		e := electorOn(t, d)
		began := time.Now()
		r, err := e.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
			<-ctx.Done()
			wantAt(t, "lost", time.Since(began), deadline, 0)
			time.Sleep(lease) // the answers come meanwhile
			if _, ok := leader.LeaseFrom(ctx); ok {
				t.Error("trusted again")
			}
			if n := d.count(renews); n != 2 {
				t.Errorf("%d renewals, want the 2 from before the loss", n)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		wantIs(t, r.Lost, leader.ErrExpired)
	})
}

func TestTrust_WhatALateRenewalBroughtIsReleasedAfterTheAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(renews, answersAfter(45*time.Second))
		_, err := electorOn(t, d).RunIfLeader(t.Context(), "a", works(lease+10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if d.count(releases) != 1 {
			t.Errorf("%d releases, want 1", d.count(releases))
		}
		wantFree(t, d.store, "a")
		time.Sleep(lease) // until the last renewal is answered
	})
}

func TestTrust_AnAcquisitionAnsweredTooLateIsFreedAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.first(1, acquires, answersAfter(deadline))
		began := time.Now()
		r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(10*time.Minute))
		if err != nil || !r.OK() {
			t.Fatalf("got %v, %v, want elected", r, err)
		}
		wantAt(t, "elected", time.Since(began), deadline, 2*time.Second)
		log := d.log(acquires, abandons)
		if log[1].verb != abandons || log[1].token != log[0].token {
			t.Errorf("the late lease was not freed: %v", log)
		}
		if last := log[len(log)-1]; last.token == log[0].token {
			t.Error("the token of the late lease was used again")
		}
	})
}

func TestTrust_AnAcquisitionAnsweredTooLateWithNoWaitLeftIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(acquires, answersAfter(deadline))
		_, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing)
		wantIs(t, err, leader.ErrUnavailable)
		failure, ok := errors.AsType[*leader.BackendError](err)
		if !ok || failure.Op != "acquire" || failure.Name != "a" || failure.Backend != "scripted" {
			t.Errorf("got %#v, want a BackendError of acquire", err)
		}
		synctest.Wait()
		wantFree(t, d.store, "a")
	})
}

func TestTrust_TheStoreSaysNotYoursSoItEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(renews, fails(backend.ErrLost))
		end, r := endOf(t, electorOn(t, d))
		if want := d.log(renews)[0].at; end != want {
			t.Errorf("the context ended after %v, want %v", end, want)
		}
		wantIs(t, r.Lost, leader.ErrLeaseLost, leader.ErrTakenOver)
		if n := d.count(renews, releases); n != 1 {
			t.Errorf("%d requests about a lease that is not ours, want the renewal alone", n)
		}
	})
}

func TestTrust_ADriverThatLearnsOfALossEndsItAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := make(chan struct{})
		time.AfterFunc(5*time.Second, func() { close(lost) })
		end, r := endOf(t, electorOn(t, &notifying{driver: newDriver(), lost: lost}))
		if end != 5*time.Second {
			t.Errorf("the context ended after %v, want 5s", end)
		}
		wantIs(t, r.Lost, leader.ErrTakenOver)
	})
}

// notifying is a driver whose leases learn by themselves that they are over.
type notifying struct {
	*driver
	lost  <-chan struct{}
	asked atomic.Int64 // how often a lease was listened to
}

func (d *notifying) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	l, err := d.driver.TryAcquire(ctx, req)
	return notifyingLease{l, d.lost, &d.asked}, err
}

type notifyingLease struct {
	backend.Lease
	lost  <-chan struct{}
	asked *atomic.Int64
}

func (l notifyingLease) Lost() <-chan struct{} {
	l.asked.Add(1)
	return l.lost
}

func TestTrust_OnlyLeasesThatLastAreListenedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := notifying{driver: newDriver()}
		e := electorOn(t, &d)
		for range 100 {
			if _, err := e.RunIfLeader(t.Context(), "a", works(time.Millisecond)); err != nil {
				t.Fatal(err)
			}
		}
		if n := d.asked.Load(); n != 0 {
			t.Errorf("%d of 100 short runs were listened to", n)
		}
		if _, err := e.RunIfLeader(t.Context(), "a", works(time.Second)); err != nil {
			t.Fatal(err)
		}
		if n := d.asked.Load(); n != 1 {
			t.Errorf("a long run was listened to %d times, want once", n)
		}
	})
}
