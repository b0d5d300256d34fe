package leader_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
)

const minimum = 20 * time.Second

// wantTakenFor asserts for how long from now on nobody else gets the key.
func wantTakenFor(t *testing.T, d *driver, want time.Duration) {
	t.Helper()
	began := time.Now()
	for !holderOf(t, d.store, "a").Free() {
		time.Sleep(10 * time.Millisecond)
	}
	wantAt(t, "free", time.Since(began), want, 10*time.Millisecond)
}

func TestMinLease_KeepsTheNameTakenAlthoughTheActionIsQuicker(t *testing.T) {
	leaves := map[string]leader.Action{
		"returns": works(time.Second),
		"fails": func(context.Context) error {
			time.Sleep(time.Second)
			return errAction
		},
		"panics": func(context.Context) error {
			time.Sleep(time.Second)
			panic("in the action")
		},
		"exits": func(context.Context) error {
			time.Sleep(time.Second)
			runtime.Goexit()
			return nil
		},
	}
	for name, action := range leaves {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				e := electorOn(t, d, leader.WithMinLease(minimum))
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					_, _ = e.RunIfLeader(t.Context(), "a", action)
				}()
				<-done
				wantAt(t, "the caller returned", time.Since(d.began), time.Second, 0)
				if h := holderOf(t, d.store, "a"); !h.Kept {
					t.Errorf("holder %+v, want kept", h)
				}
				r, err := e.RunIfLeader(t.Context(), "a", nothing)
				if err != nil || r.Reason != leader.Contended || !r.Holder.Kept || r.Holder.Node != "" {
					t.Errorf("got %+v, %v, want a skip of a kept name", r, err)
				}
				wantTakenFor(t, d, minimum-time.Second)
			})
		})
	}
}

func TestMinLease_CountsFromTheAcquisitionAtTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(acquires, arrivesAfter(time.Second))
		if _, err := electorOn(t, d, leader.WithMinLease(minimum)).RunIfLeader(t.Context(), "a", nothing); err != nil {
			t.Fatal(err)
		}
		wantTakenFor(t, d, minimum)
	})
}

func TestMinLease_OfAnActionThatTakesLongerKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		if _, err := electorOn(t, d, leader.WithMinLease(minimum)).RunIfLeader(t.Context(), "a", works(minimum)); err != nil {
			t.Fatal(err)
		}
		wantFree(t, d.store, "a")
	})
}

func TestMinLease_IsNotLengthenedByASlowRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.first(1, releases, hangs)
		if _, err := electorOn(t, d, leader.WithMinLease(minimum)).RunIfLeader(t.Context(), "a", nothing); err != nil {
			t.Fatal(err)
		}
		log := d.log(releases)
		if len(log) != 2 || log[1].d != minimum-log[1].at {
			t.Errorf("kept %v at %v, want the rest of %v", log[1].d, log[1].at, minimum)
		}
		wantTakenFor(t, d, minimum-log[1].at)
	})
}

func TestMinLease_IsNotLengthenedByALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.first(1, releases, losesAnswer(errStrange))
		if _, err := electorOn(t, d, leader.WithMinLease(minimum)).RunIfLeader(t.Context(), "a", nothing); err != nil {
			t.Fatal(err)
		}
		wantTakenFor(t, d, minimum-time.Since(d.began))
	})
}

func TestMinLease_IsNotLengthenedByTheWaitForARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(renews, answersAfter(5*time.Second))
		_, err := electorOn(t, d, leader.WithMinLease(50*time.Second)).RunIfLeader(t.Context(), "a", func(context.Context) error {
			for d.count(renews) == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		wantTakenFor(t, d, 50*time.Second-time.Since(d.began))
	})
}

func TestMinLease_OfAnAdoptedLeaseIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.first(1, acquires, losesAnswer(errStrange))
		_, err := electorOn(t, d, leader.WithMinLease(minimum)).RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		wantTakenFor(t, d, minimum)
	})
}

func TestMinLease_KeepsNothingWhereTheActionNeverStarted(t *testing.T) {
	rows := map[string]func(d *driver, cancel func()) []leader.Option{
		"lost answer": func(d *driver, _ func()) []leader.Option {
			d.onVerb(acquires, losesAnswer(errStrange))
			return nil
		},
		"ctx ended": func(d *driver, cancel func()) []leader.Option {
			d.onVerb(acquires, func(_ context.Context, apply func() error) error {
				defer cancel()
				return apply()
			})
			return nil
		},
		"too late": func(d *driver, _ func()) []leader.Option {
			d.onVerb(acquires, answersAfter(deadline))
			return nil
		},
	}
	for name, setUp := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				opts := append(setUp(d, cancel), leader.WithMinLease(minimum))
				if _, err := electorOn(t, d, opts...).RunIfLeader(ctx, "a", nothing); err == nil {
					t.Error("no error, so that this test shows nothing")
				}
				synctest.Wait()
				wantFree(t, d.store, "a")
			})
		})
	}
}

func TestMinLease_OfAnAcquiredLeaseIsKeptByItsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		l := acquired(t, electorOn(t, d), leader.WithMinLease(minimum))
		time.Sleep(time.Second)
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantTakenFor(t, d, minimum-time.Second)
	})
}
