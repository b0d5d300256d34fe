package leader_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
)

// term is how long a node believed to lead.
type term struct {
	node         string
	began, ended time.Time // ended is zero while it leads
	why          error
}

// terms is a history of leading, independent of the code under test.
type terms struct {
	mu  sync.Mutex
	all []term
}

// lead is an action that notes its term, which ends with its context.
func (h *terms) lead(node string, action leader.Action) leader.Action {
	return func(ctx context.Context) error {
		h.mu.Lock()
		i := len(h.all)
		h.all = append(h.all, term{node: node, began: time.Now()})
		h.mu.Unlock()
		end := func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.all[i].ended.IsZero() {
				h.all[i].ended, h.all[i].why = time.Now(), context.Cause(ctx)
			}
		}
		defer context.AfterFunc(ctx, end)()
		defer end()
		return action(ctx)
	}
}

func (h *terms) list() []term {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]term(nil), h.all...)
}

// leads is the node that leads now, "" if none does.
func (h *terms) leads() string {
	list := h.list()
	if len(list) == 0 || !list[len(list)-1].ended.IsZero() {
		return ""
	}
	return list[len(list)-1].node
}

// wantDisjoint asserts that no two terms overlap, and returns the longest time without a leader between two.
func (h *terms) wantDisjoint(t testing.TB) (gap time.Duration) {
	t.Helper()
	list := h.list()
	for i, next := range list {
		if i == 0 {
			continue
		}
		last := list[i-1]
		if last.ended.IsZero() || next.began.Before(last.ended) {
			t.Errorf("the term of %s begins at %v, before that of %s ends at %v", next.node, next.began, last.node, last.ended)
			continue
		}
		gap = max(gap, next.began.Sub(last.ended))
	}
	return gap
}

// changes counts how often another node began to lead.
func (h *terms) changes() int {
	n := 0
	list := h.list()
	for i := range list {
		if i > 0 && list[i].node != list[i-1].node {
			n++
		}
	}
	return n
}

// campaigns starts the node's campaign for "a", which ends before the test does.
func (n *node) campaigns(t testing.TB, lead leader.Action, opts ...leader.RunOption) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := n.Campaign(ctx, "a", lead, opts...); ctx.Err() == nil || !errors.Is(err, context.Canceled) {
			t.Errorf("the campaign ended with %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// scoreboard is a scorer whose table changes.
type scoreboard struct {
	mu     sync.Mutex
	scores map[string]float64
}

func newScoreboard(scores map[string]float64) *scoreboard { return &scoreboard{scores: scores} }

func (s *scoreboard) set(node string, score float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scores[node] = score
}

// Score implements leader.Scorer.
func (s *scoreboard) Score(c leader.Candidate, _ []leader.Candidate, _ time.Time) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scores[c.Node]
}

// shortLease is the lease of campaigns that are cut off.
const shortLease = 10 * time.Second

// contest enrolls n1, n2 … with scores and lets them campaign.
func contest(t *testing.T, h *terms, s leader.Strategy, nodes int, opts ...leader.Option) []*node {
	t.Helper()
	store := local.New()
	list := make([]*node, nodes)
	opts = append([]leader.Option{leader.WithLeaseTime(shortLease)}, opts...)
	for i := range list {
		list[i] = newNode(t, store, fmt.Sprint("n", i+1), s, opts...)
	}
	for i, n := range list {
		n.campaigns(t, h.lead(fmt.Sprint("n", i+1), untilDone))
	}
	return list
}

func TestHandBack_TheBestLeadsThenTheSecondThenTheRevivedBest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h terms
		board := newScoreboard(map[string]float64{"n1": 10, "n2": 20, "n3": 30})
		nodes := contest(t, &h, leader.Scored(board), 3, leader.WithHandBack(5, 10*time.Second))
		time.Sleep(2 * candidateTTL)
		if got := h.leads(); got != "n3" {
			t.Fatalf("%q leads, want n3", got)
		}
		nodes[2].d.partition()
		time.Sleep(candidateTTL + shortLease + heartbeat)
		if got := h.leads(); got != "n2" {
			t.Fatalf("%q leads after the best was cut off, want n2", got)
		}
		time.Sleep(time.Minute)
		before := len(h.list())
		nodes[2].d.heal()
		time.Sleep(10*time.Second + 3*heartbeat)
		if got := h.leads(); got != "n3" {
			t.Fatalf("%q leads after the best was revived, want n3", got)
		}
		h.wantDisjoint(t)
		list := h.list()[before-1:]
		if len(list) != 2 {
			t.Fatalf("terms %+v, want one change", list)
		}
		wantIs(t, list[0].why, leader.ErrLeaseLost, leader.ErrHandBack)
		if gap := list[1].began.Sub(list[0].ended); gap > 500*time.Millisecond {
			t.Errorf("nobody led for %v", gap)
		}
		time.Sleep(10 * time.Minute)
		if got, n := h.leads(), h.changes(); got != "n3" || n != 2 {
			t.Errorf("%q leads after %d changes, want n3 after 2", got, n)
		}
	})
}

func TestHandBack_ALeaderThatSitsOutIsNotPreferredMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h terms
		board := newScoreboard(map[string]float64{"n1": 10, "n2": 20})
		contest(t, &h, leader.Scored(board), 2, leader.WithHandBack(5, 4*time.Second))
		time.Sleep(2 * candidateTTL)
		board.set("n2", 0)
		time.Sleep(6 * time.Second)
		if got := h.leads(); got != "n1" {
			t.Fatalf("%q leads, want n1", got)
		}
		board.set("n2", 20) // which sits out now
		time.Sleep(9 * time.Second)
		if got := h.leads(); got != "n1" {
			t.Errorf("%q leads, want n1, since n2 sits out", got)
		}
		time.Sleep(2 * candidateTTL)
		if got := h.leads(); got != "n2" {
			t.Errorf("%q leads, want n2 again", got)
		}
	})
}

func TestHandBack_DoesNotComeForLessThanTheHysteresis(t *testing.T) {
	rows := []struct {
		own, better float64
		changes     int
	}{
		{10, 15, 0},
		{10, 15.1, 1},
		{-20, -15, 0},
		{-20, -14, 1},
		{10, math.NaN(), 0},
		{10, math.Inf(1), 1},
		{math.Inf(1), math.Inf(1), 0},
		{math.Inf(-1), 0, 1},
		{math.NaN(), 0, 1},
		{math.NaN(), math.NaN(), 0},
		{math.NaN(), math.Inf(-1), 1},
		{10, 10, 0},
	}
	for _, row := range rows {
		t.Run(fmt.Sprint(row.own, " ", row.better), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h terms
				board := newScoreboard(map[string]float64{"n1": 100, "n2": 10})
				contest(t, &h, leader.Scored(board), 2, leader.WithHandBack(5, 10*time.Second))
				time.Sleep(candidateTTL)
				board.set("n1", row.own)
				board.set("n2", row.better)
				time.Sleep(time.Minute)
				if n := h.changes(); n != row.changes {
					t.Errorf("%d changes, want %d: %+v", n, row.changes, h.list())
				}
			})
		})
	}
}

func TestHandBack_OscillatingScoresCauseAtMostOneChangeInTheHoldTime(t *testing.T) {
	const held = 20 * time.Second
	for _, period := range []time.Duration{3 * time.Second, 15 * time.Second, 25 * time.Second, time.Minute} {
		t.Run(period.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h terms
				board := newScoreboard(map[string]float64{"n1": 10, "n2": 20})
				contest(t, &h, leader.Scored(board), 2, leader.WithHandBack(5, held))
				for range 20 {
					time.Sleep(period)
					board.set("n1", 20)
					board.set("n2", 10)
					time.Sleep(period)
					board.set("n1", 10)
					board.set("n2", 20)
				}
				h.wantDisjoint(t)
				list := h.list()
				for i := range list[1:] {
					if i > 0 && list[i+1].began.Sub(list[i].began) < held {
						t.Errorf("changes %v apart", list[i+1].began.Sub(list[i].began))
					}
				}
				if n := h.changes(); period < held && n > 1 || period > 2*held && n == 0 {
					t.Errorf("%d changes", n)
				}
			})
		})
	}
}

func TestHandBack_AnOutageIsNoReasonToGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h terms
		board := newScoreboard(map[string]float64{"n1": 10, "n2": 20})
		nodes := contest(t, &h, leader.Scored(board), 2, leader.WithHandBack(5, 5*time.Second))
		time.Sleep(candidateTTL)
		nodes[1].d.on(func(r request) answer {
			if r.verb == lists {
				return fails(errDown)
			}
			return nil
		})
		time.Sleep(5 * time.Minute)
		if got, n := h.leads(), h.changes(); got != "n2" || n != 0 {
			t.Errorf("%q leads after %d changes, want n2 after none", got, n)
		}
	})
}

func TestHandBack_IsNoFailureOfTheLeader(t *testing.T) {
	for name, lead := range map[string]leader.Action{
		"returns the cause": untilDone,
		"returns ctx.Err":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				board := newScoreboard(map[string]float64{"n": 100, "n2": 10})
				store := local.New()
				n := newNode(t, store, "n", leader.Scored(board), leader.WithHandBack(5, 5*time.Second))
				other := newNode(t, store, "n2", leader.Scored(board))
				n.campaigns(t, lead)
				other.campaigns(t, untilDone)
				time.Sleep(candidateTTL)
				board.set("n2", 200)
				time.Sleep(candidateTTL)
				if h := holderOf(t, store, "a"); h.Owner != "n2" {
					t.Fatalf("%s leads, so that this test shows nothing", h.Owner)
				}
				if c := candidateOf(t, store, "n"); c.Failures != 0 {
					t.Errorf("%d failures are counted", c.Failures)
				}
			})
		})
	}
}

func TestHandBack_WhoDoesNotTakeWhatItWasHandedIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h terms
		board := newScoreboard(map[string]float64{"n1": 10, "n2": 50})
		store := local.New()
		n := newNode(t, store, "n1", leader.Scored(board), leader.WithHandBack(5, 5*time.Second))
		n.campaigns(t, h.lead("n1", untilDone))
		time.Sleep(candidateTTL)
		newNode(t, store, "n2", leader.Scored(board)) // which never campaigns
		time.Sleep(30 * time.Minute)
		if gap := h.wantDisjoint(t); gap > 2*candidateTTL+2*heartbeat {
			t.Errorf("nobody led for %v", gap)
		}
		if len(h.list()) > 3 || h.leads() != "n1" {
			t.Errorf("%q leads after %d terms, want n1 to stay after one hand-back", h.leads(), len(h.list()))
		}
	})
}

func TestCampaign_TheSecondFollowsADeadLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h terms
		nodes := contest(t, &h, leader.HighestID(), 3)
		time.Sleep(time.Minute)
		if list := h.list(); len(list) != 1 || list[0].node != "n3" {
			t.Fatalf("terms %+v, want n3 alone", list)
		}
		nodes[2].d.partition()
		time.Sleep(candidateTTL + shortLease + heartbeat)
		if got := h.leads(); got != "n2" {
			t.Errorf("%q leads, want n2", got)
		}
		nodes[2].d.heal()
		time.Sleep(10 * time.Minute)
		if got := h.leads(); got != "n2" {
			t.Errorf("%q leads, want n2: nobody hands back unasked", got)
		}
		h.wantDisjoint(t)
	})
}

func TestCampaign_ALeaderThatResignsIsPassedOverForOneTTL(t *testing.T) {
	resignations := map[string]leader.Action{
		"returns nil": works(time.Second),
		"releases": func(ctx context.Context) error {
			time.Sleep(time.Second)
			l, _ := leader.LeaseFrom(ctx)
			return l.Release(ctx)
		},
	}
	for name, resign := range resignations {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h terms
				store := local.New()
				n1 := newNode(t, store, "n1", leader.HighestID())
				n2 := newNode(t, store, "n2", leader.HighestID())
				n1.campaigns(t, h.lead("n1", untilDone), leader.WithMaxHold(2*candidateTTL)) // never resigns
				n2.campaigns(t, h.lead("n2", resign), leader.WithRequeue())
				time.Sleep(10 * time.Minute)
				list := h.list()
				if len(list) < 30 {
					t.Fatalf("%d terms in 10 min", len(list))
				}
				for i := range list[1:] {
					last, next := list[i], list[i+1]
					if next.node == last.node && next.began.Sub(last.ended) < candidateTTL {
						t.Errorf("%s leads again %v after it resigned", next.node, next.began.Sub(last.ended))
					}
				}
				h.wantDisjoint(t)
			})
		})
	}
}

func TestCampaign_AResignationIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h terms
		store := local.New()
		n1, n2 := newNode(t, store, "n1", leader.HighestID()), newNode(t, store, "n2", leader.HighestID())
		stop := make(chan struct{})
		n1.campaigns(t, h.lead("n1", untilDone))
		done := make(chan error, 1)
		go func() {
			done <- n2.Campaign(t.Context(), "a", h.lead("n2", func(context.Context) error { <-stop; return nil }))
		}()
		time.Sleep(time.Minute)
		close(stop)
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if got, gap := h.leads(), h.wantDisjoint(t); got != "n1" || gap > 500*time.Millisecond {
			t.Errorf("%q leads after a gap of %v, want n1 at once", got, gap)
		}
	})
}

func TestCampaign_ALeaderThatResignsIsPassedOverAlsoIfItCannotTellTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h terms
		store := local.New()
		n1, n2 := newNode(t, store, "n1", leader.HighestID()), newNode(t, store, "n2", leader.HighestID())
		n1.campaigns(t, h.lead("n1", untilDone))
		n2.d.onVerb(puts, fails(errDown))
		n2.campaigns(t, h.lead("n2", works(time.Second)), leader.WithRequeue())
		time.Sleep(candidateTTL)
		if n := len(h.list()); n > 2 {
			t.Errorf("%d terms in one candidate TTL, want no second one of n2: %+v", n, h.list())
		}
	})
}

func TestCampaign_TheOnlyCandidateLeadsAgainAtOnceAfterItResigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h terms
		n := newNode(t, local.New(), "n", leader.FIFO())
		n.campaigns(t, h.lead("n", works(10*time.Second)), leader.WithRequeue())
		time.Sleep(5 * time.Minute)
		if n, gap := len(h.list()), h.wantDisjoint(t); n < 28 || gap > time.Second {
			t.Errorf("%d terms, gaps of up to %v", n, gap)
		}
	})
}

func TestCampaign_EndsWithItsContextAlsoWhileAnotherIsPreferred(t *testing.T) {
	for _, hints := range []bool{false, true} {
		t.Run(fmt.Sprint("hints ", hints), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := local.New()
				newNode(t, store, "z", leader.HighestID(), leader.WithFallbackAfter(time.Hour))
				opts := []leader.Option{leader.WithNodeID("n"), leader.WithFallbackAfter(time.Hour)}
				n := guest(t, store, "n", leader.HighestID(), opts...)
				if !hints {
					n.Strategic = strategicOn(t, recording{n.d}, leader.HighestID(), opts...)
				} else {
					occupy(t, store, "a", time.Hour)
				}
				n.enroll(t)
				errStop := errors.New("stop")
				for i := range 20 {
					after := 10*time.Second + time.Duration(i)*heartbeat/7 // at any time between heartbeats
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(after, func() { cancel(errStop) })
					began := time.Now()
					err := n.Campaign(ctx, "a", nothing)
					wantIs(t, err, context.Canceled, errStop)
					wantAt(t, "returned", time.Since(began), after, 100*time.Millisecond)
				}
			})
		})
	}
}

func TestCampaign_OfANodeThatIsNotEnrolledWaitsUntilNobodyIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h terms
		store := local.New()
		n := newNode(t, store, "n", leader.FIFO())
		guest(t, store, "guest", leader.FIFO()).campaigns(t, h.lead("guest", untilDone))
		time.Sleep(10 * time.Minute)
		if got := h.leads(); got != "" {
			t.Errorf("%q leads, want nobody", got)
		}
		if err := n.member.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(heartbeat + time.Second)
		if got := h.leads(); got != "guest" {
			t.Errorf("%q leads, want the guest", got)
		}
	})
}

func TestCampaign_AResignationThatTakesLongIsStillOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, local.New(), "n", leader.FIFO(), leader.WithLeaseTime(3*time.Second))
		led := 0
		err := n.Campaign(t.Context(), "a", func(ctx context.Context) error {
			if led++; led > 1 {
				return errAction
			}
			time.Sleep(2 * time.Second)
			n.d.partition() // from now on
			time.AfterFunc(10*time.Second, n.d.heal)
			return nil
		})
		if err != nil || led != 1 {
			t.Errorf("got %v after %d terms, want the end after the first", err, led)
		}
	})
}
