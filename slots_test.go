package leader_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

// hintingWays are drivers of both kinds with a Waiter.
func hintingWays(t *testing.T, f func(t *testing.T, as func(h hinting) backend.Driver)) {
	t.Helper()
	ways := map[string]func(h hinting) backend.Driver{
		"one by one": func(h hinting) backend.Driver { return h },
		"together":   func(h hinting) backend.Driver { return slottedHinting{h} },
	}
	for way, as := range ways {
		t.Run(way, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, as) }) })
	}
}

// slotAfter waits for a slot of the group "a" and returns for how long.
func slotAfter(t *testing.T, g *leader.Group) time.Duration {
	t.Helper()
	began := time.Now()
	var took time.Duration
	r, err := g.RunIfLeader(t.Context(), "a", func(context.Context) error {
		took = time.Since(began)
		return nil
	}, leader.WithWaitTime(2*time.Hour))
	if err != nil || !r.OK() {
		t.Fatalf("got %v, %v, want elected", r, err)
	}
	return took
}

func TestSlots_TheReleaseOfAnySlotEndsTheWait(t *testing.T) {
	hintingWays(t, func(t *testing.T, as func(h hinting) backend.Driver) {
		for released := range 3 {
			d := newDriver()
			leases := make([]backend.Lease, 3)
			for slot := range leases {
				leases[slot] = occupy(t, d.store, backend.SlotKey("a", slot), 3*time.Hour)
			}
			time.AfterFunc(1234*time.Second, func() {
				_ = leases[released].Release(context.Background(), 0) //nolint:usetesting // no test's
			})
			wantAt(t, "elected", slotAfter(t, groupOn(t, as(hinting{driver: d}), 3)), 1234*time.Second, 0)
		}
	})
}

func TestSlots_TheReleaseOfASlotOfManyEndsTheWaitSoon(t *testing.T) {
	hintingWays(t, func(t *testing.T, as func(h hinting) backend.Driver) {
		d := newDriver()
		var last backend.Lease
		for slot := range 40 {
			last = occupy(t, d.store, backend.SlotKey("a", slot), 3*time.Hour)
		}
		time.AfterFunc(100*time.Second, func() { _ = last.Release(context.Background(), 0) }) //nolint:usetesting // no test's
		if took := slotAfter(t, groupOn(t, as(hinting{driver: d}), 40)); took > 105*time.Second {
			t.Errorf("elected after %v, want within 5 s of the release at 100 s", took)
		}
	})
}

func TestSlots_TheFirstKnownExpiryEndsTheWait(t *testing.T) {
	hintingWays(t, func(t *testing.T, as func(h hinting) backend.Driver) {
		for first := range 3 {
			d := newDriver()
			for slot := range 3 {
				ttl := lease
				if slot == first {
					ttl = 11 * time.Second
				}
				occupy(t, d.store, backend.SlotKey("a", slot), ttl)
			}
			wantAt(t, "elected", slotAfter(t, groupOn(t, as(hinting{d, noHints}), 3)), 11*time.Second, 15*time.Millisecond)
		}
	})
}

func TestSlots_WithoutHintsTheWaitEndsByPolling(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		d := newDriver()
		occupy(t, d.store, "a#0", 3*time.Hour)
		other := occupy(t, d.store, "a#1", 3*time.Hour)
		time.AfterFunc(100*time.Second, func() { _ = other.Release(context.Background(), 0) }) //nolint:usetesting // no test's
		if took := slotAfter(t, groupOn(t, as(d), 2)); took > 102*time.Second {
			t.Errorf("elected after %v, want within 2 s of the release at 100 s", took)
		}
	})
}

func TestSlots_HintsThatFailOrComeAtOnceMakeNoBusyLoop(t *testing.T) {
	for name, await := range map[string]func(context.Context, string, string) error{
		"fail":         func(context.Context, string, string) error { return errDown },
		"come at once": func(context.Context, string, string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			hintingWays(t, func(t *testing.T, as func(h hinting) backend.Driver) {
				d := newDriver()
				occupy(t, d.store, "a#0", 3*time.Hour)
				occupy(t, d.store, "a#1", 3*time.Hour)
				r, err := groupOn(t, as(hinting{d, await}), 2).
					RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(10*time.Minute))
				if err != nil || r.Reason != leader.Contended {
					t.Errorf("got %v, %v, want contended", r, err)
				}
				if n := r.Attempts; n > 1500 {
					t.Errorf("%d attempts in 10 min, want some 600", n)
				}
			})
		})
	}
}

func TestSlots_WaitersOfOneElectorAreServedAsSlotsBecomeFree(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		g := groupOn(t, as(newDriver()), 3)
		began := time.Now()
		var o oracle
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				r, err := g.RunIfLeader(t.Context(), "a", func(context.Context) error {
					o.begin(strconv.Itoa(i))
					defer o.end(strconv.Itoa(i))
					time.Sleep(time.Second)
					return nil
				}, leader.WithWaitTime(time.Hour))
				if err != nil || !r.OK() {
					t.Errorf("got %v, %v, want elected", r, err)
				}
			})
		}
		wg.Wait()
		wantAt(t, "done", time.Since(began), 10*time.Second, 0)
		if most := o.peak(); most != 3 {
			t.Errorf("%d at once, want 3", most)
		}
	})
}

func TestSlots_ALostAnswerDoesNotEndInTwoSlots(t *testing.T) {
	answers := map[string]func(t *testing.T) answer{
		"lost":  func(*testing.T) answer { return losesAnswer(errStrange) },
		"never": func(*testing.T) answer { return fails(errStrange) },
		"arrives before the next": func(*testing.T) answer {
			return func(_ context.Context, apply func() error) error {
				time.AfterFunc(time.Millisecond, func() { _ = apply() })
				return errStrange
			}
		},
		"arrives after the next": func(*testing.T) answer {
			return func(_ context.Context, apply func() error) error {
				time.AfterFunc(3*time.Second, func() { _ = apply() })
				return errStrange
			}
		},
		"arrives after the release": func(*testing.T) answer {
			return func(_ context.Context, apply func() error) error {
				time.AfterFunc(15*time.Second, func() { _ = apply() })
				return errStrange
			}
		},
	}
	for name, a := range answers {
		for lost := 1; lost <= 3; lost++ {
			t.Run(fmt.Sprintf("%s, %d times", name, lost), func(t *testing.T) {
				bothWays(t, func(t *testing.T, as openAs) {
					d := newDriver()
					sent := 0
					d.on(func(r request) answer {
						if r.verb != acquires {
							return nil
						}
						if sent++; sent > lost {
							return nil
						}
						return a(t)
					})
					r, err := groupOn(t, as(d), 4).RunIfLeader(t.Context(), "a", func(context.Context) error {
						for range 10 {
							time.Sleep(time.Second)
							if n := taken(t, d.store, 4); n != 1 {
								t.Errorf("%d slots are taken by one run", n)
							}
						}
						return nil
					}, leader.WithWaitTime(lease))
					if err != nil || !r.OK() {
						t.Fatalf("got %v, %v, want elected", r, err)
					}
					time.Sleep(10 * time.Second)
					if n := taken(t, d.store, 4); n != 0 {
						t.Errorf("%d slots are taken after the release", n)
					}
				})
			})
		}
	}
}

func TestSlots_TheSlotInDoubtThatAnotherGotIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		var doubtful string
		var other backend.Lease
		d.on(func(r request) answer {
			if r.verb != acquires || doubtful != "" {
				return nil
			}
			doubtful = r.key
			return func(_ context.Context, apply func() error) error {
				other = occupy(t, d.store, r.key, time.Hour)
				time.AfterFunc(time.Second, func() { _ = apply() })
				return errStrange
			}
		})
		l := slotOf(t, groupOn(t, d, 3), leader.WithWaitTime(lease))
		if l.Info().Key == doubtful {
			t.Fatalf("got %+v, which another has", l.Info())
		}
		time.Sleep(5 * time.Second)
		if n := taken(t, d.store, 3); n != 2 {
			t.Errorf("%d slots are taken, want that of each", n)
		}
		if h := holderOf(t, d.store, doubtful); h.Fence != other.Fence() {
			t.Errorf("%+v has the other's slot", h)
		}
		if log := d.log(abandons); len(log) != 2 || log[0].token != d.log(acquires)[0].token {
			t.Errorf("abandoned %v, want the two other slots", log)
		}
		release(t, l)
	})
}

func TestSlots_GivingUpFreesEachSlotInDoubt(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		d := newDriver()
		d.onVerb(acquires, losesAnswer(errDown))
		_, err := groupOn(t, as(d), 3).RunIfLeader(t.Context(), "a", nothing)
		wantIs(t, err, errDown)
		synctest.Wait()
		if n := taken(t, d.store, 3); n != 0 {
			t.Errorf("%d slots are taken after giving up", n)
		}
	})
}

func TestSlots_AFrozenDriverThatAnswersLateLeavesNothing(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		d := newDriver()
		d.limits.Blocking = true
		d.on(func(r request) answer {
			if r.verb == acquires && r.at == 0 {
				return arrivesAfter(time.Minute)
			}
			return nil
		})
		g := groupOn(t, as(d), 3)
		_, err := g.RunIfLeader(t.Context(), "a", nothing)
		wantIs(t, err, leader.ErrUnavailable)
		time.Sleep(2 * time.Minute)
		if n := taken(t, d.store, 3); n != 0 {
			t.Errorf("%d slots are taken after a late answer that nobody waits for", n)
		}
		for range 3 {
			slotOf(t, g)
		}
	})
}

func TestSlots_AnAnswerThatCameTooLateFreesTheSlot(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		d := newDriver()
		d.on(func(r request) answer {
			if r.verb == acquires && r.at == 0 {
				return answersAfter(lease)
			}
			return nil
		})
		l, err := groupOn(t, as(d), 2).Acquire(t.Context(), "a", leader.WithWaitTime(2*lease))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := taken(t, d.store, 2); n != 1 {
			t.Errorf("%d slots are taken by one lease", n)
		}
		release(t, l)
	})
}

// rollout is a deployment whose nodes want to lead in a group of n slots until stop is called.
type rollout struct {
	wg   sync.WaitGroup
	stop context.CancelFunc
}

func deploy(t *testing.T, as openAs, store *local.Backend, o *oracle, label string, nodes, n int) *rollout {
	ctx, cancel := context.WithCancel(t.Context())
	r := &rollout{stop: cancel}
	for i := range nodes {
		g := groupOn(t, as(driverOf(store)), n)
		r.wg.Go(func() {
			_ = g.Campaign(ctx, "a", func(ctx context.Context) error {
				id := fmt.Sprint(label, i)
				o.begin(id)
				defer o.end(id)
				select {
				case <-ctx.Done():
				case <-time.After(rand.N(10 * time.Second)):
				}
				return nil
			}, leader.WithRequeue())
		})
	}
	return r
}

func (r *rollout) end() {
	r.stop()
	r.wg.Wait()
}

func TestSlots_AChangeOfTheirNumberNeverExceedsTheLargerAndSettles(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		store := local.New()
		var o oracle
		want := func(when string, most int) {
			t.Helper()
			time.Sleep(time.Minute)
			if got := o.peak(); got != most {
				t.Errorf("%s: %d led at once, want %d", when, got, most)
			}
		}
		three := deploy(t, as, store, &o, "three", 8, 3)
		want("three alone", 3)
		five := deploy(t, as, store, &o, "five", 8, 5)
		want("three and five", 5)
		three.end()
		want("five alone", 5)
		two := deploy(t, as, store, &o, "two", 8, 2)
		want("five and two", 5)
		five.end()
		o.peak()
		want("two alone", 2)
		two.end()
		if n := taken(t, store, 5); n != 0 {
			t.Errorf("%d slots are taken at the end", n)
		}
	})
}

func TestSlots_MixedLeaseLengthsAndDeadHoldersNeverExceedThem(t *testing.T) {
	bothWays(t, func(t *testing.T, as openAs) {
		store := local.New()
		var o oracle
		var wg sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
		defer cancel()
		for i := range 8 {
			d := driverOf(store)
			g := groupOn(t, as(d), 3)
			l := []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute}[i%4]
			wg.Go(func() { // cuts the node off now and then
				for ctx.Err() == nil {
					time.Sleep(rand.N(3 * time.Minute))
					d.partition()
					time.Sleep(rand.N(2 * l))
					d.heal()
				}
			})
			wg.Go(func() {
				for ctx.Err() == nil {
					_ = g.Campaign(ctx, "a", func(ctx context.Context) error {
						o.begin(strconv.Itoa(i))
						defer o.end(strconv.Itoa(i))
						select {
						case <-ctx.Done():
						case <-time.After(rand.N(2 * l)):
						}
						return nil
					}, leader.WithRequeue(), leader.WithLeaseTime(l))
				}
			})
		}
		wg.Wait()
		if most := o.peak(); most != 3 {
			t.Errorf("%d led at once, want 3", most)
		}
		time.Sleep(2 * time.Minute)
		if n := taken(t, store, 3); n != 0 {
			t.Errorf("%d slots are taken a lease after the end", n)
		}
	})
}
