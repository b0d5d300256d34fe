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

func TestElector_Campaign_WaitsUntilItLeadsAndReturnsWhatTheActionDoes(t *testing.T) {
	for _, want := range []error{nil, errAction} {
		synctest.Test(t, func(t *testing.T) {
			d := newDriver()
			occupy(t, d.store, "a", time.Hour)
			calls := 0
			err := electorOn(t, d).Campaign(t.Context(), "a", func(context.Context) error {
				calls++
				wantAt(t, "leads", time.Since(d.began), time.Hour, 15*time.Millisecond)
				return want
			})
			if !errors.Is(err, want) || calls != 1 {
				t.Errorf("got %v after %d calls, want %v after one", err, calls, want)
			}
			wantFree(t, d.store, "a")
		})
	}
}

func TestElector_Campaign_QueuesAgainIfAskedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		terms := 0
		err := electorOn(t, d).Campaign(t.Context(), "a", func(context.Context) error {
			if terms++; terms == 5 {
				return errAction
			}
			return nil
		}, leader.WithRequeue())
		if !errors.Is(err, errAction) || terms != 5 {
			t.Errorf("got %v after %d terms, want the error of the fifth", err, terms)
		}
	})
}

func TestElector_Campaign_ReleasesAfterTheActionHasDrainedWhenItsContextEnds(t *testing.T) {
	rows := []struct {
		name string
		own  error
	}{{"nil", nil}, {"its own error", errAction}, {"a context error", context.Canceled}}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cause := errors.New("shutting down")
				d := newDriver()
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Hour, func() { cancel(cause) })
				err := electorOn(t, d).Campaign(ctx, "a", func(ctx context.Context) error {
					<-ctx.Done()
					wantIs(t, context.Cause(ctx), cause)
					time.Sleep(10 * time.Second)
					if holderOf(t, d.store, "a").Free() {
						t.Error("released while it drains")
					}
					return row.own
				})
				wantIs(t, err, context.Canceled, cause)
				if errors.Is(row.own, errAction) != errors.Is(err, errAction) {
					t.Errorf("got %v, want its own error unless that is a context's", err)
				}
				wantAt(t, "returned", time.Since(d.began), time.Hour+10*time.Second, 0)
				wantFree(t, d.store, "a")
			})
		})
	}
}

func TestElector_Campaign_EndsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		occupy(t, d.store, "a", time.Hour)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errAction)
		defer cancel()
		err := electorOn(t, d).Campaign(ctx, "a", nothing)
		wantIs(t, err, context.DeadlineExceeded, errAction)
	})
}

func TestElector_Campaign_ReacquiresAfterLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(renews, fails(backend.ErrLost))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var fence uint64
		var terms atomic.Int32
		err := electorOn(t, d).Campaign(ctx, "a", func(ctx context.Context) error {
			l, ok := leader.LeaseFrom(ctx)
			if now := l.Info().Fence; !ok || now <= fence {
				t.Errorf("fence %d after %d", now, fence)
			}
			fence = l.Info().Fence
			if terms.Add(1) == 100 {
				time.AfterFunc(time.Second, cancel)
			}
			<-ctx.Done()
			return errAction
		})
		wantIs(t, err, context.Canceled, errAction)
		if n := terms.Load(); n != 100 {
			t.Errorf("%d terms, want 100", n)
		}
		synctest.Wait()
		time.Sleep(lease)
	})
}

func TestElector_Campaign_WarnsOfAnErrorOfATermWhoseLeaseWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.first(1, renews, fails(backend.ErrLost))
		w := newWarnings()
		terms := 0
		err := loggingElector(t, d, w).Campaign(t.Context(), "a", func(ctx context.Context) error {
			if terms++; terms == 2 {
				return nil
			}
			<-ctx.Done()
			return errAction
		})
		if err != nil || terms != 2 {
			t.Errorf("got %v after %d terms, want nil after two", err, terms)
		}
		if got := w.String(); got != "lease lost, leading ended with an error after its lease was lost" {
			t.Errorf("warnings: %s", got)
		}
	})
}

func TestElector_Campaign_WhoseContextEndsDuringTheReleaseOfALostTermSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(renews, fails(backend.ErrLost))
		ctx, cancel := context.WithCancelCause(t.Context())
		hooks := leader.Hooks{RunFinished: func(context.Context, string, leader.RunResult, error) { cancel(errAction) }}
		err := electorOn(t, d, leader.WithHooks(hooks)).Campaign(ctx, "a", func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
		wantIs(t, err, context.Canceled, errAction)
	})
}

func TestElector_Campaign_ThatReleasesItsLeaseReturns(t *testing.T) {
	for _, want := range []error{nil, errAction} {
		synctest.Test(t, func(t *testing.T) {
			err := electorOn(t, newDriver()).Campaign(t.Context(), "a", func(ctx context.Context) error {
				l, _ := leader.LeaseFrom(ctx)
				if err := l.Release(ctx); err != nil {
					t.Error(err)
				}
				return want
			})
			if !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		})
	}
}

func TestElector_Campaign_LeadsAgainAfterMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terms := 0
		err := electorOn(t, newDriver()).Campaign(t.Context(), "a", func(ctx context.Context) error {
			if terms++; terms == 3 {
				return nil
			}
			<-ctx.Done()
			wantIs(t, context.Cause(ctx), leader.ErrMaxHold)
			return nil
		}, leader.WithMaxHold(time.Hour))
		if err != nil || terms != 3 {
			t.Errorf("got %v after %d terms, want nil after three", err, terms)
		}
	})
}

func TestElector_Campaign_ReturnsARefusalBeforeTheFirstAnswer(t *testing.T) {
	for _, refusal := range []error{errDenied, errForeign} {
		synctest.Test(t, func(t *testing.T) {
			d := newDriver()
			d.on(func(r request) answer {
				if r.at < time.Minute {
					return fails(errDown) // no answer
				}
				return fails(refusal)
			})
			err := electorOn(t, d).Campaign(t.Context(), "a", nothing)
			wantIs(t, err, refusal)
			wantAt(t, "returned", time.Since(d.began), time.Minute+time.Second, time.Second)
			time.Sleep(2 * lease)
		})
	}
}

func TestElector_Campaign_OutlivesARefusalAfterTheFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		occupy(t, d.store, "a", 10*time.Minute)
		d.on(func(r request) answer {
			if r.at > 2*time.Minute && r.at < time.Hour {
				return fails(errDenied)
			}
			return nil
		})
		w := newWarnings()
		err := loggingElector(t, d, w).Campaign(t.Context(), "a", func(context.Context) error {
			wantAt(t, "leads", time.Since(d.began), time.Hour, 3*time.Second)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if len(w.all()) == 0 {
			t.Error("nothing was logged")
		}
	})
}

func TestElector_Campaign_APanicUnwinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
			wantFree(t, d.store, "a")
		}()
		_ = electorOn(t, d).Campaign(t.Context(), "a", func(context.Context) error { panic("lead") })
	})
}

func TestElector_Campaign_HandsOverWithinOneNotification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newDriver()
		two := driverOf(one.store)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, cancel)
		go func() { _ = electorOn(t, hinting{driver: one}).Campaign(ctx, "a", untilDone) }()
		synctest.Wait()
		err := electorOn(t, hinting{driver: two}).Campaign(t.Context(), "a", func(context.Context) error {
			wantAt(t, "the standby leads", time.Since(two.began), time.Hour, 0)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
