package leader_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

func TestRunKey_ARunThatFailsFreesItOnRequest(t *testing.T) {
	actions := map[string]struct {
		action leader.Action
		frees  bool
	}{
		"succeeds": {nothing, false},
		"fails":    {func(context.Context) error { return errAction }, true},
		"panics":   {func(context.Context) error { panic(errAction) }, true},
		"goexits":  {func(context.Context) error { runtime.Goexit(); return nil }, true},
	}
	for name, row := range actions {
		for _, asked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, asked for %v", name, asked), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := newDriver()
					opts := []leader.RunOption{noonKey()}
					if asked {
						opts = append(opts, leader.WithRetryFailedRun())
					}
					e := electorOn(t, recording{d})
					done := make(chan struct{})
					go func() {
						defer close(done)
						defer func() {
							if p := recover(); (p != nil) != (name == "panics") {
								t.Errorf("recovered %v", p)
							}
						}()
						_, _ = e.RunIfLeader(t.Context(), "a", row.action, opts...)
					}()
					<-done
					wantFree(t, d.store, "a")
					r, err := e.RunIfLeader(t.Context(), "a", nothing, opts...)
					if row.frees && asked {
						wantRan(t, r, err)
					} else {
						wantAlreadyRan(t, r, err)
					}
				})
			})
		}
	}
}

func TestRunKey_IsFreedLaterWhereTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.on(func(r request) answer {
			if r.verb == clears && r.at < 10*time.Second {
				return fails(errDown)
			}
			return nil
		})
		e := electorOn(t, recording{d})
		began := time.Now()
		r, err := e.RunIfLeader(t.Context(), "a", func(context.Context) error { return errAction },
			noonKey(), leader.WithRetryFailedRun())
		if err != nil || !errors.Is(r.Err, errAction) {
			t.Errorf("got %v, %v", r, err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the caller waited %v", took)
		}
		time.Sleep(15 * time.Second)
		wantMarked(t, d.store, 0)
	})
}

func TestRunKey_AFailedRunLeavesTheMarkOfALaterOneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.New()
		e, other := electorOn(t, recording{driverOf(store)}), electorOn(t, recording{driverOf(store)})
		_, err := e.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(lease)
			r, err := other.RunIfLeader(t.Context(), "a", nothing, noonKey())
			wantRan(t, r, err)
			return errAction
		}, leader.WithRunKey("noon", lease), leader.WithRetryFailedRun(), leader.WithoutAutoExtend())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(lease)
		wantMarked(t, store, 1)
	})
}

func TestRunKey_AMarkTakenBackThatExpiresMeanwhileIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		e := electorOn(t, recording{d})
		_, err := e.RunIfLeader(t.Context(), "a", func(context.Context) error { return errAction },
			noonKey(), leader.WithRetryFailedRun())
		if err != nil {
			t.Fatal(err)
		}
		expired := false
		d.on(func(r request) answer {
			if r.verb != lists || expired {
				return nil
			}
			expired = true
			return func(_ context.Context, apply func() error) error {
				err := apply()
				for _, r := range recordsOf(t, d.store, marked) {
					_ = d.store.DeleteRecord(t.Context(), r)
				}
				return err
			}
		})
		r, err := e.RunIfLeader(t.Context(), "a", nothing, noonKey())
		wantRan(t, r, err)
		wantMarked(t, d.store, 1)
	})
}

func TestRunKey_AMarkThatArrivesAfterItWasGivenUpDoesNotBurnTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(puts, func(_ context.Context, apply func() error) error {
			time.AfterFunc(5*time.Second, func() { _ = apply() })
			return errDown
		})
		e := electorOn(t, recording{d})
		_, err := e.RunIfLeader(t.Context(), "a", nothing, noonKey())
		wantIs(t, err, errDown)
		d.heal()
		time.Sleep(2 * lease)
		wantMarked(t, d.store, 0)
		r, err := e.RunIfLeader(t.Context(), "a", nothing, noonKey())
		wantRan(t, r, err)
	})
}

func TestRunKey_AKeyThatIsFreedMeanwhileIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		// Another run's mark, which its failure frees between the answer and the look at it.
		d.first(1, puts, fails(backend.ErrConflict))
		var runs atomic.Int32
		r, err := electorOn(t, recording{d}).RunIfLeader(t.Context(), "a", counted(&runs), noonKey())
		wantRan(t, r, err)
	})
}
