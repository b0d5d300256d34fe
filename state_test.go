package leader_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

func TestElector_State_TellsWhoLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		e := electorOn(t, d, leader.WithNodeID("me"), leader.WithNamespace("ns"))
		if s, err := e.State(t.Context(), "a"); err != nil || s.Node != "" || s.Fence != 0 || s.Name != "a" {
			t.Errorf("got %+v, %v, want nobody", s, err)
		}
		began := time.Now()
		metadata := map[string]string{"zone": "b"}
		l := acquired(t, e, leader.WithMetadata(metadata), leader.WithMinLease(50*time.Second))
		metadata["zone"] = "changed later"
		time.Sleep(10 * time.Second)
		s, err := e.State(t.Context(), "a")
		if err != nil || s.Name != "a" || s.Node != "me" || s.Fence != l.Info().Fence || !s.Since.Equal(began) ||
			s.Remaining != 50*time.Second || s.Kept || s.Stale || !maps.Equal(s.Metadata, map[string]string{"zone": "b"}) {
			t.Errorf("got %+v, %v", s, err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s, err := e.State(t.Context(), "a"); err != nil || s.Node != "" || !s.Kept || s.Remaining != 40*time.Second {
			t.Errorf("got %+v, %v, want kept by nobody", s, err)
		}
		if s, err := electorOn(t, d).State(t.Context(), "a"); err != nil || s.Kept {
			t.Errorf("got %+v, %v: the name of another namespace", s, err)
		}
	})
}

func TestElector_State_ReportsAStoreThatCannotBeAsked(t *testing.T) {
	rows := map[string]struct {
		blocking bool
		inspect  func(freed chan struct{}) answer
		want     error
	}{
		"down":    {false, func(chan struct{}) answer { return fails(errDown) }, leader.ErrUnavailable},
		"denied":  {false, func(chan struct{}) answer { return fails(errDenied) }, leader.ErrDenied},
		"hanging": {false, func(chan struct{}) answer { return hangs }, context.DeadlineExceeded},
		"stuck":   {true, func(freed chan struct{}) answer { return stuck(freed) }, leader.ErrUnavailable},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				freed := make(chan struct{})
				defer close(freed)
				d := newDriver()
				d.limits.Blocking = row.blocking
				d.onVerb(inspects, row.inspect(freed))
				_, err := electorOn(t, d).State(t.Context(), "a")
				wantIs(t, err, row.want)
				failure, ok := errors.AsType[*leader.BackendError](err)
				if !ok || failure.Op != "inspect" || failure.Name != "a" {
					t.Errorf("got %v, want a BackendError of inspect", err)
				}
				if took := time.Since(d.began); took > attemptBound {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestElector_State_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(inspects, hangs)
		e := electorOn(t, d)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errAction) })
		for range 2 {
			_, err := e.State(ctx, "a")
			wantIs(t, err, context.Canceled, errAction)
		}
		if n := d.count(); n != 1 {
			t.Errorf("%d requests, want none for a context that is done", n)
		}
	})
}

// looking is a driver that can only be asked; with a Waiter if it has one.
func looking(hints bool) func(*local.Backend) (backend.Driver, *driver) {
	return func(store *local.Backend) (backend.Driver, *driver) {
		d := driverOf(store)
		if hints {
			return hinting{driver: d}, d
		}
		return d, d
	}
}

// watching is a scripted driver with the store's own Watcher, which fails while down is set.
type watching struct {
	*driver
	fails func() error
}

func (d watching) Watch(ctx context.Context, key string) iter.Seq2[backend.Holder, error] {
	return func(yield func(backend.Holder, error) bool) {
		if d.fails != nil {
			if err := d.fails(); err != nil {
				yield(backend.Holder{}, err)
				return
			}
		}
		d.store.Watch(ctx, key)(yield)
	}
}

func TestElector_Watch_YieldsTheStateAndEveryChange(t *testing.T) {
	rows := map[string]func(*local.Backend) (backend.Driver, *driver){
		"by a watcher": func(store *local.Backend) (backend.Driver, *driver) {
			d := driverOf(store)
			return watching{driver: d}, d
		},
		"by looks":           looking(false),
		"by looks and hints": looking(true),
	}
	for name, open := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := local.New()
				d, _ := open(store)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				leads := electorOn(t, driverOf(store), leader.WithNodeID("me"))
				go func() {
					time.Sleep(time.Minute)
					l, err := leads.Acquire(t.Context(), "a")
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Hour)
					_ = l.Release(t.Context())
					time.Sleep(time.Minute)
					_, _ = leads.RunIfLeader(t.Context(), "a", works(20*time.Second), leader.WithMinLease(30*time.Second))
					time.Sleep(time.Minute)
					cancel()
				}()
				var j journal
				var fence uint64
				for s, err := range electorOn(t, d).Watch(ctx, "a") {
					if err != nil || s.Stale || s.Name != "a" {
						t.Errorf("got %+v, %v", s, err)
					}
					switch {
					case s.Kept:
						j.add("kept")
					case s.Node != "":
						j.add(s.Node)
						if s.Fence <= fence {
							t.Errorf("fence %d after %d", s.Fence, fence)
						}
						fence = s.Fence
					default:
						j.add("nobody")
					}
				}
				if got := j.String(); got != "nobody, me, nobody, me, kept, nobody" {
					t.Errorf("states: %s", got)
				}
			})
		})
	}
}

// muteWatcher is a scripted driver with a Watcher and a Waiter whose store tells nobody.
type muteWatcher struct {
	*driver
	asked *int
}

func (d muteWatcher) Watch(context.Context, string) iter.Seq2[backend.Holder, error] {
	return func(yield func(backend.Holder, error) bool) {
		*d.asked++
		yield(backend.Holder{}, fmt.Errorf("a standalone server: %w", errors.ErrUnsupported))
	}
}

func (d muteWatcher) AwaitRelease(context.Context, string, string) error {
	*d.asked++
	return errors.ErrUnsupported
}

func TestElector_Watch_LooksEverySecondWhereTheStoreTellsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		d := muteWatcher{newDriver(), &asked}
		occupy(t, d.store, "a", time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var owners []string
		for s, err := range electorOn(t, d).Watch(ctx, "a") {
			if err != nil {
				t.Fatal(err)
			}
			owners = append(owners, s.Node)
		}
		if len(owners) != 2 || owners[1] != "" {
			t.Errorf("saw %q, want the holder and its end", owners)
		}
		if asked != 2 {
			t.Errorf("asked %d times, want once for each ability", asked)
		}
		if n := len(d.log(inspects)); n < 3000 || n > 8000 {
			t.Errorf("%d looks in an hour, want one every half to whole second", n)
		}
	})
}

func TestElector_Watch_ShowsTheLastStateAsStaleWhileTheStoreCannotBeAsked(t *testing.T) {
	rows := map[string]func(d *driver, down func() error) backend.Driver{
		"by a watcher": func(d *driver, down func() error) backend.Driver {
			return watching{d, func() error {
				return down()
			}}
		},
		"by looks": func(d *driver, down func() error) backend.Driver {
			d.onVerb(inspects, func(_ context.Context, apply func() error) error {
				if err := down(); err != nil {
					return err
				}
				return apply()
			})
			return d
		},
	}
	for name, open := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				calls := 0
				down := func() error { // for a while, from the beginning on
					if calls++; calls <= 5 {
						return errDown
					}
					return nil
				}
				other := occupy(t, d.store, "a", time.Hour)
				var seen []leader.State
				for s, err := range electorOn(t, open(d, down)).Watch(t.Context(), "a") {
					if err != nil {
						t.Fatal(err)
					}
					if seen = append(seen, s); len(seen) == 2 {
						break
					}
				}
				if !seen[0].Stale || seen[0].Name != "a" || seen[0].Node != "" {
					t.Errorf("first %+v, want a stale state that knows nothing", seen[0])
				}
				if seen[1].Stale || seen[1].Fence != other.Fence() {
					t.Errorf("then %+v, want the holder", seen[1])
				}
				if calls != 6 {
					t.Errorf("asked %d times, want 5 failures and a success", calls)
				}
			})
		})
	}
}

func TestElector_Watch_KeepsTheHolderInAStaleState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		other := occupy(t, d.store, "a", time.Hour)
		d.on(func(r request) answer {
			if r.verb == inspects && r.at > time.Minute {
				return fails(errDown)
			}
			return nil
		})
		for s, err := range electorOn(t, d).Watch(t.Context(), "a") {
			if err != nil || s.Fence != other.Fence() || s.Node != "somebody else" {
				t.Errorf("got %+v, %v", s, err)
			}
			if s.Stale {
				break
			}
		}
	})
}

func TestElector_Watch_EndsAfterOneErrorThatTryingAgainWouldNotMend(t *testing.T) {
	for _, failure := range []error{errDenied, errForeign, leader.ErrUnsupported} {
		for _, watcher := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				d.onVerb(inspects, fails(failure))
				var driver backend.Driver = d
				if watcher {
					driver = watching{d, func() error { return failure }}
				}
				yields := 0
				for s, err := range electorOn(t, driver).Watch(t.Context(), "a") {
					yields++
					wantIs(t, err, failure)
					if s.Fence != 0 {
						t.Errorf("state %+v beside the error", s)
					}
				}
				if yields != 1 {
					t.Errorf("%d yields, want the error alone", yields)
				}
			})
		}
	}
}

func TestElector_Watch_EndsQuietlyWithItsContextAlsoWhereTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := make(chan struct{})
		defer close(freed)
		d := newDriver()
		d.limits.Blocking = true
		d.onVerb(inspects, stuck(freed))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for s, err := range electorOn(t, d).Watch(ctx, "a") {
			t.Errorf("got %+v, %v, want nothing", s, err)
		}
		wantAt(t, "ended", time.Since(d.began), time.Second, 0)
	})
}

func TestElector_Watch_OfADoneContextYieldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for s, err := range electorOn(t, d).Watch(ctx, "a") {
			t.Errorf("got %+v, %v, want nothing", s, err)
		}
		if n := d.count(); n != 0 {
			t.Errorf("%d requests, want none", n)
		}
	})
}

func TestElector_Watch_ASlowWatcherSeesTheFinalState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.New()
		e := electorOn(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var fence atomic.Uint64
		go func() {
			time.Sleep(time.Millisecond)
			for range 1000 {
				_, _ = e.RunIfLeader(t.Context(), "a", works(time.Millisecond))
			}
			l := acquired(t, e)
			time.Sleep(time.Minute)
			if got := fence.Load(); got != l.Info().Fence {
				t.Errorf("the last state has fence %d, want %d", got, l.Info().Fence)
			}
			cancel()
		}()
		for s, err := range e.Watch(ctx, "a") {
			if err != nil {
				t.Error(err)
			}
			fence.Store(s.Fence)
			time.Sleep(10 * time.Second)
		}
	})
}
