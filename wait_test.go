package leader_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

// hinting is a scripted driver with a Waiter; await scripts it, nil being the store's own.
type hinting struct {
	*driver
	await func(ctx context.Context, key, seen string) error
}

func (d hinting) AwaitRelease(ctx context.Context, key, seen string) error {
	if d.await != nil {
		return d.await(ctx, key, seen)
	}
	return d.store.AwaitRelease(ctx, key, seen)
}

// noHints never tells of a release.
func noHints(ctx context.Context, _, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// electedAfter waits for the lease and returns for how long.
func electedAfter(t *testing.T, d backend.Driver) time.Duration {
	t.Helper()
	began := time.Now()
	var took time.Duration
	_, err := electorOn(t, d).RunIfLeader(t.Context(), "a", func(context.Context) error {
		took = time.Since(began)
		return nil
	}, leader.WithWaitTime(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return took
}

func TestWait_PollsWithABackoffOfUpToTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		occupy(t, d.store, "a", 2*time.Hour)
		r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Hour))
		if err != nil || r.Outcome != leader.Skipped {
			t.Fatalf("got %v, %v, want a skip", r, err)
		}
		var last time.Duration
		for _, r := range d.log(acquires)[1:] {
			if pause := r.at - last; pause > 2*time.Second || pause < 10*time.Millisecond && r.at < time.Hour {
				t.Errorf("a pause of %v, want 10ms to 2s", pause)
			}
			last = r.at
		}
		if n := r.Attempts; n < 3000 || n > 4500 {
			t.Errorf("%d attempts in an hour, want some 3600", n)
		}
	})
}

func TestWait_AStoreThatTellsNobodyIsAskedForHintsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		occupy(t, d.store, "a", 2*time.Hour)
		asked := 0
		mute := hinting{driver: d, await: func(context.Context, string, string) error {
			asked++
			return fmt.Errorf("a standalone server: %w", errors.ErrUnsupported)
		}}
		r, err := electorOn(t, mute).RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Hour))
		if err != nil || r.Outcome != leader.Skipped {
			t.Fatalf("got %v, %v, want a skip", r, err)
		}
		if asked != 1 {
			t.Errorf("asked %d times, want once", asked)
		}
		if n := r.Attempts; n < 3000 || n > 4500 {
			t.Errorf("%d attempts in an hour, want some 3600", n)
		}
	})
}

func TestWait_TriesAtTheHoldersKnownExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		occupy(t, d.store, "a", 10*time.Second)
		wantAt(t, "elected", electedAfter(t, d), 10*time.Second, 15*time.Millisecond)
	})
}

func TestWait_AHintEndsTheWaitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		other := occupy(t, d.store, "a", time.Hour)
		time.AfterFunc(1234*time.Second, func() { _ = other.Release(context.Background(), 0) }) //nolint:usetesting // no test's
		wantAt(t, "elected", electedAfter(t, hinting{driver: d}), 1234*time.Second, 0)
	})
}

func TestWait_WithHintsTriesEveryFewSecondsAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		occupy(t, d.store, "a", 2*time.Hour)
		r, err := electorOn(t, hinting{driver: d}).RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Hour))
		if err != nil || r.Outcome != leader.Skipped {
			t.Fatalf("got %v, %v, want a skip", r, err)
		}
		if n := d.count(); n < 700 || n > 1500 {
			t.Errorf("%d requests in an hour, want one every 2.5 to 5 s", n)
		}
	})
}

func TestWait_LostHintsCostNoMoreThanAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		other := occupy(t, d.store, "a", time.Hour)
		time.AfterFunc(100*time.Second, func() { _ = other.Release(context.Background(), 0) }) //nolint:usetesting // no test's
		if took := electedAfter(t, hinting{d, noHints}); took > 105*time.Second {
			t.Errorf("elected after %v, want within 5 s of the release at 100 s", took)
		}
	})
}

func TestWait_WithLostHintsTheHolderExpiresOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		occupy(t, d.store, "a", lease)
		wantAt(t, "elected", electedAfter(t, hinting{d, noHints}), lease, 15*time.Millisecond)
	})
}

func TestWait_HintsThatComeAtOnceForEverMakeNoBusyLoop(t *testing.T) {
	rows := map[string]func(ctx context.Context, key, seen string) error{
		"at once": func(context.Context, string, string) error { return nil },
		"failing": func(context.Context, string, string) error { return errDown },
	}
	for name, await := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				occupy(t, d.store, "a", time.Hour)
				r, err := electorOn(t, hinting{d, await}).RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Minute))
				if err != nil || r.Outcome != leader.Skipped {
					t.Fatalf("got %v, %v, want a skip", r, err)
				}
				if n := d.count(); n > 120 {
					t.Errorf("%d requests in a minute, want at most 120", n)
				}
			})
		})
	}
}

// blind is a driver with a Waiter that does not tell what to wait for.
type blind struct{ hinting }

func (d blind) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	l, err := d.hinting.TryAcquire(ctx, req)
	if errors.Is(err, backend.ErrHeld) {
		time.Sleep(time.Millisecond)
		return nil, backend.ErrHeld
	}
	return l, err
}

func (d blind) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	h, err := d.hinting.Inspect(ctx, key)
	h.Seen = ""
	return h, err
}

func TestWait_AHolderOfWhomNothingIsSeenMakesNoBusyLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		occupy(t, d.store, "a", time.Hour)
		r, err := electorOn(t, blind{hinting{d, nil}}).RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(10*time.Second))
		if err != nil || r.Outcome != leader.Skipped {
			t.Fatalf("got %v, %v, want a skip", r, err)
		}
		if n := d.count(); n > 200 {
			t.Errorf("%d requests in ten seconds, want a poll", n)
		}
	})
}

func TestWait_AnAnswerThatDoesNotTellTheHolderIsCompletedByALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(acquires, func(_ context.Context, apply func() error) error {
			if err := apply(); err != nil {
				return backend.ErrHeld
			}
			return nil
		})
		other := occupy(t, d.store, "a", time.Hour)
		time.AfterFunc(time.Second, func() { _ = other.Release(context.Background(), 0) }) //nolint:usetesting // no test's
		wantAt(t, "elected", electedAfter(t, hinting{driver: d}), time.Second, 0)
	})
}

func TestWait_LooksFirstWhereALosingAttemptCostsTheStoreSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.limits.LookFirst = true
		occupy(t, d.store, "a", lease)
		electedAfter(t, d)
		if n := d.count(acquires); n > 3 {
			t.Errorf("%d attempts, want one to learn of the holder and one to take over", n)
		}
		if n := d.count(inspects); n < 10 {
			t.Errorf("%d looks, want one for each poll", n)
		}
	})
}

func TestWait_EndsWithALastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		occupy(t, d.store, "a", time.Hour)
		began := time.Now()
		r, err := electorOn(t, hinting{d, noHints}).RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Minute))
		if err != nil || r.Outcome != leader.Skipped {
			t.Fatalf("got %v, %v, want a skip", r, err)
		}
		wantAt(t, "skipped", time.Since(began), time.Minute, 0)
		wantAt(t, "the wait", r.Waited, time.Minute, 0)
		if log := d.log(acquires); log[len(log)-1].at != time.Minute {
			t.Errorf("the last attempt was at %v, want at the end of the wait", log[len(log)-1].at)
		}
	})
}

func TestWait_IsIndependentOfTheLeaseTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		other := occupy(t, d.store, "a", time.Hour)
		time.AfterFunc(10*time.Minute, func() { _ = other.Release(context.Background(), 0) }) //nolint:usetesting // no test's
		r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Hour), leader.WithLeaseTime(time.Second))
		if err != nil || !r.OK() {
			t.Errorf("got %v, %v, want elected", r, err)
		}
	})
}

func TestWait_EndsWithin100MillisecondsOfItsContext(t *testing.T) {
	rows := map[string]func(t *testing.T, d *driver) backend.Driver{
		"polling": func(t *testing.T, d *driver) backend.Driver {
			occupy(t, d.store, "a", time.Hour)
			return d
		},
		"waiting for a hint": func(t *testing.T, d *driver) backend.Driver {
			occupy(t, d.store, "a", time.Hour)
			return hinting{driver: d}
		},
		"failing": func(_ *testing.T, d *driver) backend.Driver {
			d.on(func(request) answer { return fails(errDown) })
			return d
		},
		"hanging": func(_ *testing.T, d *driver) backend.Driver {
			d.on(func(request) answer { return hangs })
			return d
		},
		"stuck": func(t *testing.T, d *driver) backend.Driver {
			freed := make(chan struct{})
			t.Cleanup(func() { close(freed) })
			d.limits.Blocking = true
			d.on(func(request) answer { return stuck(freed) })
			return d
		},
		"stuck in a look": func(t *testing.T, d *driver) backend.Driver {
			freed := make(chan struct{})
			t.Cleanup(func() { close(freed) })
			d.limits.Blocking, d.limits.LookFirst = true, true
			occupy(t, d.store, "a", time.Hour)
			d.onVerb(inspects, stuck(freed))
			return d
		},
	}
	for name, setUp := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := electorOn(t, setUp(t, newDriver()))
				ctx, cancel := context.WithCancelCause(t.Context())
				began := time.Now()
				time.AfterFunc(time.Minute+time.Second/3, func() { cancel(errAction) })
				var wg sync.WaitGroup
				for range 3 {
					wg.Go(func() {
						_, err := e.RunIfLeader(ctx, "a", nothing, leader.WithWaitTime(time.Hour))
						wantIs(t, err, context.Canceled, errAction)
						if took := time.Since(began) - time.Minute - time.Second/3; took > 100*time.Millisecond {
							t.Errorf("took %v after its context ended", took)
						}
					})
				}
				wg.Wait()
				time.Sleep(2 * lease) // until nobody cleans up any more
			})
		})
	}
}

func TestWait_ACallWhoseContextIsDoneMakesNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		e := electorOn(t, d)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errAction)
		for _, wait := range []time.Duration{0, time.Hour} {
			_, err := e.RunIfLeader(ctx, "a", nothing, leader.WithWaitTime(wait))
			wantIs(t, err, context.Canceled, errAction)
		}
		_, err := e.Acquire(ctx, "a")
		wantIs(t, err, context.Canceled, errAction)
		wantIs(t, e.Campaign(ctx, "a", nothing), context.Canceled, errAction)
		if n := d.count(); n != 0 {
			t.Errorf("%d requests, want none", n)
		}
	})
}

func TestWait_ALeaseGrantedToACallWhoseContextEndedIsFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		ctx, cancel := context.WithCancelCause(t.Context())
		d.onVerb(acquires, func(_ context.Context, apply func() error) error {
			defer cancel(errAction)
			return apply()
		})
		_, err := electorOn(t, d).RunIfLeader(ctx, "a", nothing, leader.WithMinLease(lease))
		wantIs(t, err, context.Canceled, errAction)
		wantFree(t, d.store, "a") // already: the caller waits for it, if not for long
	})
}

func TestWait_RetriesWhileTheStoreFailsAndReturnsTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.on(func(r request) answer {
			if r.verb == acquires && r.at > 20*time.Second {
				return fails(errStrange)
			}
			return fails(errDown)
		})
		began := time.Now()
		_, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Minute))
		wantIs(t, err, errStrange)
		wantAt(t, "returned", time.Since(began), time.Minute, 0)
		if n := d.count(acquires); n < 30 || n > 200 {
			t.Errorf("%d attempts in a minute, want a growing backoff up to 2s", n)
		}
		time.Sleep(2 * lease)
	})
}

func TestWait_RefusedAccessEndsItAtOnce(t *testing.T) {
	for _, refusal := range []error{errDenied, errForeign} {
		synctest.Test(t, func(t *testing.T) {
			d := newDriver()
			d.on(func(request) answer { return fails(refusal) })
			began := time.Now()
			_, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Hour))
			wantIs(t, err, refusal)
			if time.Since(began) != 0 || d.count() != 1 {
				t.Errorf("ended after %v and %d requests, want at once", time.Since(began), d.count())
			}
		})
	}
}

func TestWait_FailuresOfAFleetDoNotReturnInStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.on(func(r request) answer {
			if r.verb == acquires && r.at < 10*time.Second {
				return fails(errDown)
			}
			return nil
		})
		occupy(t, d.store, "a", time.Hour)
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(13*time.Second))
				if err != nil || r.Outcome != leader.Skipped {
					t.Errorf("got %v, %v, want a skip", r, err)
				}
			})
		}
		wg.Wait()
		var peak int
		buckets := make(map[time.Duration]int)
		for _, r := range d.log(acquires) {
			if r.at > 10*time.Second && r.at < 12*time.Second {
				buckets[r.at/(100*time.Millisecond)]++
				peak = max(peak, buckets[r.at/(100*time.Millisecond)])
			}
		}
		if peak > 80 {
			t.Errorf("%d of 200 callers within 100 ms, want them spread over two seconds", peak)
		}
	})
}
