package leader_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
)

func TestMembership_OutlivesLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, local.New(), "n", leader.FIFO())
		n.d.on(func(r request) answer {
			if r.verb == puts && r.n%2 == 0 {
				return losesAnswer(errDown)
			}
			return nil
		})
		for range 600 {
			time.Sleep(time.Second)
			if list := recordsOf(t, n.d.store, seats); len(list) != 1 {
				t.Fatalf("%d seats after %v", len(list), time.Since(n.d.began))
			}
		}
		if err := n.member.Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestMembership_Enroll_WithALostAnswerTakesItsOwnSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := guest(t, local.New(), "n", leader.FIFO())
		n.d.limits.Blocking, n.d.limits.Punctual = true, true
		n.Strategic = strategicOn(t, able{recording{n.d}}, leader.FIFO(), leader.WithNodeID("n"))
		n.d.first(1, puts, func(ctx context.Context, apply func() error) error {
			_ = apply()
			<-ctx.Done()
			return ctx.Err()
		})
		n.enroll(t)
		time.Sleep(time.Minute)
		if err := n.member.Err(); err != nil {
			t.Error(err)
		}
		if list := recordsOf(t, n.d.store, seats); len(list) != 1 {
			t.Errorf("%d seats", len(list))
		}
	})
}

func TestMembership_Enroll_LeavesNothingWhereItFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := guest(t, local.New(), "n", leader.FIFO())
		n.d.onVerb(puts, losesAnswer(errDown))
		_, err := n.Enroll(t.Context(), "a", leader.Candidate{})
		wantIs(t, err, leader.ErrUnavailable)
		n.d.heal()
		time.Sleep(candidateTTL)
		if list := recordsOf(t, n.d.store, seats); len(list) != 0 {
			t.Errorf("%d seats that nobody has", len(list))
		}
	})
}

func TestMembership_KeepsItsSeatOverAnOutage(t *testing.T) {
	for _, outage := range []time.Duration{candidateTTL / 2, 3 * candidateTTL} {
		for name, how := range map[string]answer{"refuses": fails(errDown), "hangs": hangs} {
			t.Run(fmt.Sprint(name, " for ", outage), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := local.New()
					n := newNode(t, store, "n", leader.FIFO())
					time.Sleep(time.Minute)
					n.run(t)
					registered := candidateOf(t, store, "n").Registered
					n.d.on(func(request) answer { return how })
					time.Sleep(outage)
					if n := len(recordsOf(t, store, seats)); (n == 0) != (outage > candidateTTL) {
						t.Errorf("%d seats at the end of the outage", n)
					}
					n.d.heal()
					later := newNode(t, store, "another", leader.FIFO())
					time.Sleep(3 * heartbeat)
					c := candidateOf(t, store, "n")
					if !c.Registered.Equal(registered) || c.Successes != 1 || n.member.Err() != nil {
						t.Errorf("got %+v, %v, want it registered at %v with its run", c, n.member.Err(), registered)
					}
					if got := n.run(t); got != 0 {
						t.Errorf("got %v after the outage, want a run", got)
					}
					if got := later.run(t); got != leader.NotPreferred {
						t.Errorf("got %v on the node that came later, want not preferred", got)
					}
				})
			})
		}
	}
}

func TestMembership_AShortTTLOutlivesARequestWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := guest(t, local.New(), "n", leader.FIFO(), leader.WithCandidateTTL(1500*time.Millisecond))
		n.enroll(t)
		hung := false
		n.d.on(func(r request) answer {
			if r.verb == puts && !hung {
				hung = true
				return hangs
			}
			return nil
		})
		for range 300 {
			time.Sleep(10 * time.Millisecond)
			if len(recordsOf(t, n.d.store, seats)) != 1 {
				t.Fatalf("the seat ended after %v because of one request without an answer", time.Since(n.d.began))
			}
		}
	})
}
