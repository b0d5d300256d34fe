package leader_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

func TestLeaseContext_ChildrenEndWithItAndHaveItsCause(t *testing.T) {
	type key struct{}
	children := map[string]func(ctx context.Context) (context.Context, context.CancelFunc){
		"WithCancel": context.WithCancel,
		"WithTimeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		},
		"WithValue": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithValue(ctx, key{}, 1), func() {}
		},
		"WithCancelCause of WithValue": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(context.WithValue(ctx, key{}, 1))
			return ctx, func() { cancel(nil) }
		},
	}
	for name, derive := range children {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := acquired(t, electorOn(t, newDriver()), leader.WithoutAutoExtend())
				early, cancel := derive(l.Context())
				defer cancel()
				told := false
				context.AfterFunc(early, func() { told = true })
				if early.Err() != nil {
					t.Errorf("over at once: %v", early.Err())
				}
				time.Sleep(deadline)
				synctest.Wait()
				late, cancel := derive(l.Context())
				defer cancel()
				for _, child := range []context.Context{early, late} {
					if child.Err() != context.Canceled {
						t.Errorf("Err is %v, want Canceled", child.Err())
					}
					wantIs(t, context.Cause(child), leader.ErrLeaseLost, leader.ErrExpired)
					if got, ok := leader.LeaseFrom(child); got != l || ok {
						t.Error("the child does not carry the lease that is over")
					}
				}
				if !told {
					t.Error("AfterFunc was not called")
				}
			})
		})
	}
}

func TestLeaseContext_ACancelledChildLeavesItAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := acquired(t, electorOn(t, newDriver()))
		child, cancel := context.WithCancelCause(l.Context())
		cancel(errAction)
		if l.Context().Err() != nil || l.Err() != nil {
			t.Error("a child ended the lease")
		}
		wantIs(t, context.Cause(child), errAction)
	})
}

func TestLeaseContext_ChildrenCostNoGoroutineEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := acquired(t, electorOn(t, newDriver()))
		before := runtime.NumGoroutine()
		for range 1000 {
			ctx, cancel := context.WithCancel(l.Context())
			t.Cleanup(cancel)
			ctx, cancel = context.WithTimeout(context.WithValue(ctx, childKey{}, 1), time.Hour)
			t.Cleanup(cancel)
			context.AfterFunc(ctx, func() {})
		}
		if n := runtime.NumGoroutine() - before; n > 100 {
			t.Errorf("%d goroutines for 1,000 children", n)
		}
	})
}

func TestLeaseContext_EndsWithTheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := map[string]struct {
			look func(ctx context.Context)
			end  func(ctx context.Context) (context.Context, context.CancelFunc)
			err  error
		}{
			"cancelled, seen before": {
				func(ctx context.Context) { _ = ctx.Done() },
				context.WithCancel, context.Canceled,
			},
			"cancelled, not seen before": {
				func(context.Context) {},
				context.WithCancel, context.Canceled,
			},
			"timed out, seen before": {
				func(ctx context.Context) { _ = ctx.Done() },
				func(ctx context.Context) (context.Context, context.CancelFunc) {
					return context.WithTimeoutCause(ctx, time.Second, errAction)
				}, context.DeadlineExceeded,
			},
			"timed out, not seen before": {
				func(context.Context) {},
				func(ctx context.Context) (context.Context, context.CancelFunc) {
					return context.WithTimeoutCause(ctx, time.Second, errAction)
				}, context.DeadlineExceeded,
			},
		}
		for name, row := range rows {
			ctx, cancel := row.end(t.Context())
			time.AfterFunc(2*time.Second, cancel)
			_, err := electorOn(t, newDriver()).RunIfLeader(ctx, "a", func(inner context.Context) error {
				row.look(inner)
				if inner.Err() != nil {
					t.Errorf("%s: over at once", name)
				}
				time.Sleep(3 * time.Second)
				if !errors.Is(inner.Err(), row.err) || !errors.Is(context.Cause(inner), context.Cause(ctx)) {
					t.Errorf("%s: got %v, %v, want %v, %v", name, inner.Err(), context.Cause(inner), row.err, context.Cause(ctx))
				}
				select {
				case <-inner.Done():
				default:
					t.Errorf("%s: Done is open", name)
				}
				if l, ok := leader.LeaseFrom(inner); !ok || l.Err() != nil {
					t.Errorf("%s: the lease is over, though it still covers the drain", name)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			cancel()
		}
	})
}

func TestLeaseContext_HasTheDeadlineOfTheCallerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := electorOn(t, newDriver())
		_, _ = e.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
			if d, ok := ctx.Deadline(); ok {
				t.Errorf("deadline %v, want none", d)
			}
			return nil
		})
		want := time.Now().Add(time.Hour)
		ctx, cancel := context.WithDeadline(t.Context(), want)
		defer cancel()
		_, _ = e.RunIfLeader(ctx, "a", func(ctx context.Context) error {
			if d, ok := ctx.Deadline(); !ok || !d.Equal(want) {
				t.Errorf("deadline %v, want %v", d, want)
			}
			return nil
		})
	})
}

func TestLeaseContext_ItsCauseIsThereAlsoWhereNobodyAskedForDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := acquired(t, electorOn(t, newDriver()), leader.WithoutAutoExtend())
		ctx := l.Context()
		if cause := context.Cause(ctx); cause != nil {
			t.Errorf("cause %v of a lease that lives", cause)
		}
		time.Sleep(deadline)
		wantIs(t, context.Cause(ctx), leader.ErrLeaseLost, leader.ErrExpired)
		if ctx.Err() != context.Canceled {
			t.Errorf("Err is %v, want Canceled", ctx.Err())
		}
	})
}

func TestLeaseContext_IsOverAtTheVeryDeadlineWhateverTimersDid(t *testing.T) {
	checks := map[string]func(l *leader.Lease, child context.Context) bool{
		"Err": func(l *leader.Lease, _ context.Context) bool { return l.Context().Err() != nil },
		"Done": func(l *leader.Lease, _ context.Context) bool {
			select {
			case <-l.Context().Done():
				return true
			default:
				return false
			}
		},
		"Cause":     func(l *leader.Lease, _ context.Context) bool { return context.Cause(l.Context()) != nil },
		"Lease.Err": func(l *leader.Lease, _ context.Context) bool { return l.Err() != nil },
		"LeaseFrom": func(_ *leader.Lease, child context.Context) bool { _, ok := leader.LeaseFrom(child); return !ok },
	}
	for name, check := range checks {
		for range 20 {
			synctest.Test(t, func(t *testing.T) {
				l := acquired(t, electorOn(t, newDriver()), leader.WithoutAutoExtend())
				child, cancel := context.WithCancel(l.Context())
				defer cancel()
				time.Sleep(deadline - 1)
				if check(l, child) {
					t.Errorf("%s: over before the deadline", name)
				}
				time.Sleep(time.Nanosecond)
				if !check(l, child) {
					t.Errorf("%s: trusted at the deadline", name)
				}
			})
		}
	}
}

func TestLeaseContext_AChildThatOutlivesItStillCarriesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := acquired(t, electorOn(t, newDriver()), leader.WithoutAutoExtend())
		child := context.WithoutCancel(l.Context())
		if got, ok := leader.LeaseFrom(child); got != l || !ok {
			t.Error("no lease in the child")
		}
		time.Sleep(deadline)
		if child.Err() != nil {
			t.Error("a child without cancellation was cancelled")
		}
		if got, ok := leader.LeaseFrom(child); got != l || ok {
			t.Error("the child's lease is still trusted")
		}
	})
}

func TestLeaseContext_OfANestedRunEndsWithTheOuterLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.on(func(r request) answer {
			if r.verb == renews && r.key == "outer" {
				return fails(backend.ErrLost)
			}
			return nil
		})
		e := electorOn(t, d)
		_, err := e.RunIfLeader(t.Context(), "outer", func(ctx context.Context) error {
			r, err := e.RunIfLeader(ctx, "inner", func(ctx context.Context) error {
				if l, ok := leader.LeaseFrom(ctx); !ok || l.Info().Name != "inner" {
					t.Error("not the innermost lease")
				}
				<-ctx.Done()
				wantIs(t, context.Cause(ctx), leader.ErrTakenOver)
				if l, ok := leader.LeaseFrom(ctx); !ok || l.Err() != nil {
					t.Error("the inner lease was lost with the outer one")
				}
				return nil
			})
			if err != nil || r.Lost != nil {
				t.Errorf("inner run: %v, %v", r, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		wantFree(t, d.store, "inner")
	})
}

func TestLeaseContext_OfAnActionThatReturnedIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, look := range []bool{false, true} {
			var kept context.Context
			_, err := electorOn(t, newDriver()).RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
				if look {
					_ = ctx.Done()
				}
				kept = ctx
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			<-kept.Done()
			wantIs(t, context.Cause(kept), leader.ErrReleased)
		}
	})
}

func TestLeaseContext_ConcurrentSafe(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			l := acquired(t, electorOn(t, newDriver()), leader.WithLeaseTime(time.Second), leader.WithoutAutoExtend())
			ctx := l.Context()
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() {
					time.Sleep(500 * time.Millisecond)
					_ = l.Extend(ctx, 400*time.Millisecond)
					time.Sleep(400*time.Millisecond - time.Duration(i%3))
					for !errors.Is(ctx.Err(), context.Canceled) {
						_ = ctx.Value("key")
						_, cancel := context.WithCancel(ctx)
						cancel()
						time.Sleep(time.Nanosecond)
					}
					<-ctx.Done()
					wantIs(t, context.Cause(ctx), leader.ErrExpired)
				})
			}
			wg.Wait()
		})
	}
}
