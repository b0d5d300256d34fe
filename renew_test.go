package leader_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

func TestRenewal_ComesEveryThirdOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", works(time.Hour))
		if err != nil || !r.OK() {
			t.Fatalf("got %v, %v, want an hour of leading", r, err)
		}
		var last time.Duration
		var early, late bool
		for _, r := range d.log(renews) {
			wantAt(t, "renewed", r.at-last, lease/3, lease/30+time.Millisecond)
			early, late = early || r.at-last < lease/3, late || r.at-last > lease/3
			last = r.at
		}
		if n := d.count(renews); n < 160 || n > 200 || !early || !late {
			t.Errorf("%d renewals in an hour, early %v, late %v, want some 180 with jitter", n, early, late)
		}
	})
}

func TestRenewal_OfAShortLeaseKeepsItsRhythm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", works(time.Minute), leader.WithLeaseTime(100*time.Millisecond))
		if err != nil || !r.OK() {
			t.Fatalf("got %v, %v, want a minute of leading", r, err)
		}
		if n := d.count(renews); n < 1600 || n > 2100 {
			t.Errorf("%d renewals in a minute, want some 1800", n)
		}
	})
}

func TestRenewal_ThatFailsForAWhileAndHealsLosesNothing(t *testing.T) {
	outages := map[string]answer{
		"failing": fails(errDown), "hanging": hangs, "lost answers": losesAnswer(errStrange), "late": answersAfter(20 * time.Second),
	}
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				d.on(func(r request) answer {
					if from := 5 * time.Minute; r.verb == renews && r.at > from && r.at < from+lease*4/10 {
						return outage
					}
					return nil
				})
				var j journal
				e := electorOn(t, d, leader.WithHooks(recordingHooks(&j)))
				r, err := e.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
					l, _ := leader.LeaseFrom(ctx)
					fence := l.Info().Fence
					select {
					case <-ctx.Done():
						t.Errorf("disturbed: %v", context.Cause(ctx))
					case <-time.After(time.Hour):
					}
					if now := l.Info().Fence; now != fence || holderOf(t, d.store, "a").Fence != fence {
						t.Errorf("fence %d became %d", fence, now)
					}
					return nil
				})
				if err != nil || !r.OK() {
					t.Errorf("got %v, %v, want an undisturbed run; hooks: %v", r, err, &j)
				}
			})
		})
	}
}

func TestRenewal_ResumesItsRhythmAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.on(func(r request) answer {
			if r.verb == renews && r.at > lease/4 && r.at < lease/2 {
				return fails(errDown)
			}
			return nil
		})
		if r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", works(10*time.Minute)); err != nil || !r.OK() {
			t.Fatalf("got %v, %v, want elected", r, err)
		}
		var last time.Duration
		for _, r := range d.log(renews) {
			if last > lease/2 {
				wantAt(t, "renewed", r.at-last, lease/3, lease/30+time.Millisecond)
			}
			last = r.at
		}
	})
}

func TestRenewal_GoesOnUntilTheTrustDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(renews, fails(errDown))
		endOf(t, electorOn(t, d))
		log := d.log(renews)
		if n := len(log); n < 10 || n > 60 {
			t.Errorf("%d tries, want some, with a short backoff", n)
		}
		if last := log[len(log)-1].at; last < deadline-3*time.Second || last > deadline {
			t.Errorf("the last try was at %v, want shortly before %v", last, deadline)
		}
	})
}

func TestRenewal_EachTryIsBoundedByAFifthOfTheLeaseAndHalfOfTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(renews, func(ctx context.Context, _ func() error) error {
			sent := time.Since(d.began)
			<-ctx.Done()
			bound := max(time.Millisecond, min(lease/5, (deadline-sent)/2))
			if sent+bound < deadline { // else the loss ends it
				wantAt(t, "given up", time.Since(d.began)-sent, bound, 0)
			}
			return ctx.Err()
		})
		endOf(t, electorOn(t, d))
		if n := d.count(renews); n < 5 {
			t.Errorf("%d tries, want more", n)
		}
	})
}

func TestRenewal_AtMostTwoOfALeaseAreOutstanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := make(chan struct{})
		defer close(freed)
		d := newDriver()
		d.onVerb(renews, stuck(freed))
		endOf(t, electorOn(t, d))
		if n := d.count(renews); n != 2 {
			t.Errorf("%d renewals of which none was answered, want 2", n)
		}
	})
}

func TestRenewal_TheSecondTryPassesTheStuckFirstOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := make(chan struct{})
		defer close(freed)
		d := newDriver()
		d.first(1, renews, stuck(freed))
		if r, err := electorOn(t, d).RunIfLeader(t.Context(), "a", works(time.Hour)); err != nil || !r.OK() {
			t.Errorf("got %v, %v, want an hour of leading beside a stuck renewal", r, err)
		}
	})
}

func TestRenewal_AtMost64AreWaitedForAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under, most atomic.Int32
		d := newDriver()
		d.onVerb(renews, func(_ context.Context, apply func() error) error {
			n := under.Add(1)
			defer under.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(time.Second)
			return apply()
		})
		leadMany(t, electorOn(t, d), 500, 2*time.Minute)
		time.Sleep(2 * time.Second) // until the last renewal is answered
		if n := most.Load(); n != 64 {
			t.Errorf("%d renewals at a time, want 64", n)
		}
	})
}

// leadMany leads under n names for a time and asserts that no lease is lost.
func leadMany(t *testing.T, e leader.Runner, n int, d time.Duration) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if r, err := e.RunIfLeader(t.Context(), fmt.Sprint("name ", i), works(d)); err != nil || !r.OK() {
				t.Errorf("name %d: got %v, %v, want elected", i, r, err)
			}
		})
	}
	wg.Wait()
}

func TestRenewal_AThousandLeasesAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		leadMany(t, electorOn(t, d), 1000, 5*time.Minute)
		if n := d.count(renews); n < 13_000 || n > 16_000 {
			t.Errorf("%d renewals, want some 14,500", n)
		}
	})
}

func TestRenewal_AHundredStuckLeasesDoNotDelayTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := make(chan struct{})
		d := newDriver()
		d.limits.Blocking = true
		d.on(func(r request) answer {
			if r.verb == renews && r.key[0] == 's' {
				return stuck(freed)
			}
			return nil
		})
		e := electorOn(t, d)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				r, err := e.RunIfLeader(t.Context(), fmt.Sprint("stuck ", i), untilDone)
				if err != nil || r.Lost == nil {
					t.Errorf("stuck %d: got %v, %v, want lost", i, r, err)
				}
			})
		}
		leadMany(t, e, 100, 10*time.Minute)
		wg.Wait()
		close(freed)
	})
}

func TestRenewal_StuckOnesOfReleasedLeasesTakeNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := make(chan struct{})
		defer close(freed)
		d := newDriver()
		d.limits.Blocking = true
		d.on(func(r request) answer {
			if r.verb == renews && r.key != "healthy" {
				return stuck(freed)
			}
			return nil
		})
		e := electorOn(t, d)
		// The actions return while their first renewals are under way, and before those are given up.
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() { _, _ = e.RunIfLeader(t.Context(), fmt.Sprint("stuck ", i), works(lease*11/30+time.Second)) })
		}
		wg.Wait()
		if n := d.count(renews); n != 64 {
			t.Fatalf("%d renewals, want 64 under way", n)
		}
		if r, err := e.RunIfLeader(t.Context(), "healthy", works(time.Hour)); err != nil || !r.OK() {
			t.Errorf("got %v, %v, want an hour of leading", r, err)
		}
	})
}

func TestRenewal_AReleasedLeaseThatWaitedForItsTurnDoesNotTakeThatOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.on(func(r request) answer {
			if r.verb == renews && r.key[0] == 's' {
				return hangs
			}
			return nil
		})
		e := electorOn(t, d)
		acquire := func(name string, l time.Duration) *leader.Lease {
			got, err := e.Acquire(t.Context(), name, leader.WithLeaseTime(l))
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		const long = 10 * time.Minute
		var slow, waiting []*leader.Lease
		for i := range 64 { // renewals are under way from 180..220 s to 300..340 s
			slow = append(slow, acquire(fmt.Sprint("slow ", i), long))
		}
		time.Sleep(221 * time.Second)
		for i := range 64 { // due at 257..265 s
			waiting = append(waiting, acquire(fmt.Sprint("waiting ", i), 2*time.Minute))
		}
		time.Sleep(10 * time.Second)
		behind := acquire("behind", 2*time.Minute) // due at 267..275 s, trusted until 349 s
		time.Sleep(49 * time.Second)
		for _, l := range waiting {
			_ = l.Release(t.Context())
		}
		time.Sleep(2 * time.Minute)
		if err := behind.Err(); err != nil {
			t.Errorf("not renewed although the store was there: %v", err)
		}
		for _, l := range append(slow, behind) {
			_ = l.Release(t.Context())
		}
		time.Sleep(long) // until the last renewal ends
	})
}

func TestRenewal_IsNotMadeWithoutAutoExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		if end, _ := endOf(t, electorOn(t, d), leader.WithoutAutoExtend()); end != deadline {
			t.Errorf("the context ended after %v, want %v", end, deadline)
		}
		if n := d.count(renews); n != 0 {
			t.Errorf("%d renewals, want none", n)
		}
	})
}

func TestRenewal_ThatFailsForAThirdOfTheLeaseIsWarnedOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(renews, fails(errDown))
		w := newWarnings()
		endOf(t, loggingElector(t, d, w))
		synctest.Wait()
		if got := w.String(); got != "lease cannot be renewed, lease lost" {
			t.Errorf("warnings: %s", got)
		}
	})
}

func TestRenewal_AnErrLostOfAGivenUpTryEndsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.first(1, renews, func(context.Context, func() error) error {
			time.Sleep(lease / 4)
			return backend.ErrLost
		})
		end, r := endOf(t, electorOn(t, d))
		if want := d.log(renews)[0].at + lease/4; end != want {
			t.Errorf("the context ended after %v, want %v", end, want)
		}
		wantIs(t, r.Lost, leader.ErrTakenOver)
	})
}
