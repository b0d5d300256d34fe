package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

// The times of candidates in most tests: the default TTL, and the heartbeat that follows from it.
const (
	candidateTTL = 15 * time.Second
	heartbeat    = candidateTTL / 3
)

// seats is the set of the candidates' records of most tests.
const seats = "a!candidate/"

// strategicOn returns a strategic elector that logs nothing.
func strategicOn(t testing.TB, d backend.Driver, s leader.Strategy, opts ...leader.Option) *leader.Strategic {
	t.Helper()
	opts = append([]leader.Option{leader.WithLogger(slog.New(slog.DiscardHandler))}, opts...)
	e, err := leader.NewStrategic(d, s, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// node is one process that takes part in strategic elections.
type node struct {
	*leader.Strategic
	d      *driver
	member *leader.Membership
}

// newNode returns a node of its own driver, which notifies waiters, enrolled for "a" until the test ends.
func newNode(t testing.TB, store *local.Backend, id string, s leader.Strategy, opts ...leader.Option) *node {
	t.Helper()
	n := guest(t, store, id, s, opts...)
	n.enroll(t)
	return n
}

// guest is newNode without the enrolment.
func guest(t testing.TB, store *local.Backend, id string, s leader.Strategy, opts ...leader.Option) *node {
	t.Helper()
	d := driverOf(store)
	return &node{
		Strategic: strategicOn(t, able{recording{d}}, s, append([]leader.Option{leader.WithNodeID(id)}, opts...)...), d: d,
	}
}

func (n *node) enroll(t testing.TB) {
	t.Helper()
	m, err := n.Enroll(t.Context(), "a", leader.Candidate{})
	if err != nil {
		t.Fatal(err)
	}
	n.member = m
	t.Cleanup(func() {
		if err := m.Leave(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// run runs an action that does nothing, and returns why it was skipped; 0 if it ran.
func (n *node) run(t testing.TB, opts ...leader.RunOption) leader.SkipReason {
	t.Helper()
	r, err := n.RunIfLeader(t.Context(), "a", nothing, opts...)
	if err != nil || !r.OK() && r.Outcome != leader.Skipped {
		t.Errorf("got %v, %v, want a run or a skip", r, err)
	}
	return r.Reason
}

// three are enrolled nodes, of which the last is preferred by the strategy HighestID.
func three(t testing.TB, store *local.Backend, opts ...leader.Option) [3]*node {
	t.Helper()
	var nodes [3]*node
	for i := range nodes {
		nodes[i] = newNode(t, store, fmt.Sprint("n", i+1), leader.HighestID(), opts...)
	}
	return nodes
}

func TestStrategic_RunsOnThePreferredNodeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := three(t, local.New())
		for range 10 {
			for i, n := range nodes {
				want := leader.NotPreferred
				if i == 2 {
					want = 0
				}
				if got := n.run(t); got != want {
					t.Errorf("node %d: got %v, want %v", i+1, got, want)
				}
			}
			time.Sleep(time.Second)
		}
		r, err := nodes[0].RunIfLeader(t.Context(), "a", nothing)
		if err != nil || r.Outcome != leader.Skipped || r.Attempts != 0 || r.Holder.Node != "" || r.Lease.Fence != 0 {
			t.Errorf("got %+v, %v", r, err)
		}
	})
}

func TestStrategic_ANodeThatIsNotEnrolledRunsWhereNobodyIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.New()
		g := guest(t, store, "guest", leader.HighestID())
		if got := g.run(t); got != 0 {
			t.Errorf("got %v with nobody enrolled, want a run", got)
		}
		n := newNode(t, store, "a node", leader.HighestID())
		if got := g.run(t); got != leader.NotPreferred {
			t.Errorf("got %v with another enrolled, want not preferred", got)
		}
		if err := n.member.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := g.run(t); got != 0 {
			t.Errorf("got %v after the other left, want a run", got)
		}
	})
}

func TestStrategic_ExcludesAPlainElectorOfItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.New()
		n := newNode(t, store, "n", leader.FIFO())
		plain := electorOn(t, driverOf(store))
		l := acquired(t, plain)
		if got := n.run(t); got != leader.Contended {
			t.Errorf("got %v while a plain elector leads, want contended", got)
		}
		release(t, l)
		_, err := n.RunIfLeader(t.Context(), "a", func(context.Context) error {
			_, err := plain.Acquire(t.Context(), "a")
			wantIs(t, err, leader.ErrNotElected)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestStrategic_CostsAtMostOneListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := three(t, local.New(), leader.WithFallbackAfter(time.Hour))
		synctest.Wait()
		requests := func(n *node) string {
			before := n.d.count()
			n.run(t)
			var verbs []string
			for _, r := range n.d.log()[before:] {
				verbs = append(verbs, string(r.verb))
			}
			return strings.Join(verbs, ", ")
		}
		if got := requests(nodes[2]); got != "list, acquire, release" {
			t.Errorf("a preferred node's requests: %s", got)
		}
		requests(nodes[0]) // whose view may be older than the last enrolment
		if got := requests(nodes[0]); got != "" {
			t.Errorf("requests of a node whose view is fresh: %s", got)
		}
		time.Sleep(10*heartbeat + time.Second)
		if got := requests(nodes[1]); got != "" {
			t.Errorf("requests of a node whose heartbeat keeps its view fresh: %s", got)
		}
		g := guest(t, nodes[0].d.store, "guest", leader.HighestID())
		if got := requests(g); got != "list" {
			t.Errorf("requests of a node that is not enrolled: %s", got)
		}
	})
}

func TestStrategic_ADeadPreferredNodeIsOutAfterItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := three(t, local.New())
		time.Sleep(time.Second)
		nodes[2].d.partition()
		time.Sleep(heartbeat)
		if got := nodes[1].run(t); got != leader.NotPreferred {
			t.Errorf("got %v soon after, want not preferred", got)
		}
		r, err := nodes[1].RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Hour))
		if err != nil || !r.OK() || r.Waited > candidateTTL+heartbeat {
			t.Errorf("got %v, %v after %v, want elected within %v", r, err, r.Waited, candidateTTL+heartbeat)
		}
		nodes[2].d.heal()
		time.Sleep(3 * heartbeat)
		if got := nodes[2].run(t); got != 0 {
			t.Errorf("got %v on the revived node, want a run", got)
		}
	})
}

func TestStrategic_WaitsForItsTurnUntilTheWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := three(t, local.New(), leader.WithFallbackAfter(time.Hour))
		r, err := nodes[0].RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Minute))
		if err != nil || r.Reason != leader.NotPreferred || r.Waited != time.Minute {
			t.Errorf("got %v, %v after %v, want not preferred after 1m", r, err, r.Waited)
		}
		if n := nodes[0].d.count(lists, inspects, acquires); n > 100 {
			t.Errorf("%d requests in a minute", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err = nodes[0].RunIfLeader(ctx, "a", nothing, leader.WithWaitTime(time.Hour))
		wantIs(t, err, context.DeadlineExceeded)
		wantAt(t, "returned", time.Since(began), time.Minute, 0)
	})
}

func TestStrategic_ALivePreferredNodeThatNeverTriesIsPassedOver(t *testing.T) {
	for _, after := range []time.Duration{candidateTTL, time.Minute} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := three(t, local.New(), leader.WithFallbackAfter(after))
				r, err := nodes[1].RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Hour))
				if err != nil || !r.OK() || r.Waited < after || r.Waited > after+4*heartbeat {
					t.Errorf("got %v, %v after %v, want elected soon after %v", r, err, r.Waited, after)
				}
				e, err := nodes[1].Election(t.Context(), "a")
				if err != nil || e.Winner != "n2" || e.Eliminated["n3"] != "leaves the lease untaken" {
					t.Errorf("got %+v, %v", e, err)
				}
			})
		})
	}
}

func TestStrategic_APassedOverNodeThatTriesAtLastIsPreferredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := three(t, local.New())
		for range 60 { // n2 does the work, for a minute
			nodes[1].run(t)
			nodes[0].run(t)
			time.Sleep(time.Second)
		}
		if got := nodes[1].run(t); got != 0 {
			t.Fatalf("got %v, so that this test shows nothing", got)
		}
		if got := nodes[2].run(t, leader.WithWaitTime(2*heartbeat)); got != 0 {
			t.Errorf("got %v on the preferred node, want a run: the lease is free", got)
		}
		time.Sleep(2*heartbeat + time.Second)
		if got := nodes[1].run(t); got != leader.NotPreferred {
			t.Errorf("got %v on the next node after the preferred one ran, want not preferred", got)
		}
	})
}

func TestStrategic_AnotherNodeThatComesBackLaterIsNotPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := three(t, local.New())
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := nodes[1].RunIfLeader(t.Context(), "a", func(context.Context) error { <-stop; return nil },
				leader.WithWaitTime(time.Hour))
			if err != nil {
				t.Error(err)
			}
		})
		time.Sleep(2 * time.Minute)
		wg.Go(func() { // the preferred node wants to lead, at last
			r, err := nodes[2].RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Hour))
			if err != nil || !r.OK() || r.Waited > time.Minute+time.Second {
				t.Errorf("got %v, %v after %v, want elected once the other has released", r, err, r.Waited)
			}
		})
		time.Sleep(time.Minute)
		close(stop)
		wg.Wait()
	})
}

func TestStrategic_APreferredNodeWithShortJobsIsNotPassedOver(t *testing.T) {
	for _, after := range []time.Duration{candidateTTL, heartbeat, 3 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := three(t, local.New(), leader.WithFallbackAfter(after))
				var wg sync.WaitGroup
				for i, n := range nodes {
					wg.Go(func() {
						time.Sleep(time.Duration(i) * 100 * time.Millisecond)
						for range 150 {
							r, err := n.RunIfLeader(t.Context(), "a", works(20*time.Millisecond))
							if err != nil || r.OK() != (i == 2) {
								t.Errorf("%v: node %d got %v, %v", time.Since(n.d.began), i+1, r, err)
							}
							time.Sleep(2 * time.Second)
						}
					})
				}
				wg.Wait()
			})
		})
	}
}

func TestStrategic_APreferredNodeWithRareJobsIsNotPassedOver(t *testing.T) {
	for _, period := range []time.Duration{20 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute} {
		t.Run(period.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := three(t, local.New())
				for range 30 {
					var wg sync.WaitGroup
					for i, n := range nodes { // all at the same time, as a schedule has it
						wg.Go(func() {
							r, err := n.RunIfLeader(t.Context(), "a", works(20*time.Millisecond))
							if err != nil || r.OK() != (i == 2) {
								t.Errorf("%v: node %d got %v, %v", time.Since(n.d.began), i+1, r, err)
							}
						})
					}
					wg.Wait()
					time.Sleep(period)
				}
			})
		})
	}
}

func TestStrategic_Election_Explains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.New()
		s := leader.Scored(byTable(map[string]float64{"n1": 10, "n2": 30, "n3": 20, "n4": 40}))
		g := guest(t, store, "guest", s)
		e, err := g.Election(t.Context(), "a")
		if err != nil || e.Winner != "" || len(e.Candidates) != 0 {
			t.Errorf("got %+v, %v, want nobody", e, err)
		}
		for i := range 4 {
			newNode(t, store, fmt.Sprint("n", i+1), s)
		}
		e, err = g.Election(t.Context(), "a")
		if err != nil || e.Winner != "n4" || e.Scores["n1"] != 10 || len(e.Scores) != 4 || len(e.Eliminated) != 3 {
			t.Errorf("got %+v, %v", e, err)
		}
		if got := nodesOf(e.Candidates); !slices.Equal(got, []string{"n4", "n2", "n3", "n1"}) {
			t.Errorf("candidates %v, want best first", got)
		}
		if !strings.Contains(e.Eliminated["n1"], `of "n4"`) {
			t.Errorf("n1 lost because %q", e.Eliminated["n1"])
		}
		_, err = g.Election(t.Context(), "")
		wantIs(t, err, leader.ErrInvalidName)
		g.d.onVerb(lists, fails(errDown))
		_, err = g.Election(t.Context(), "a")
		wantIs(t, err, leader.ErrUnavailable)
	})
}

func TestStrategic_Election_SaysWhoSitsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := three(t, local.New())
		if err := nodes[2].Campaign(t.Context(), "a", nothing); err != nil {
			t.Fatal(err)
		}
		e, err := nodes[0].Election(t.Context(), "a")
		if err != nil || e.Winner != "n2" || e.Eliminated["n3"] != "sits out after it resigned" || len(e.Eliminated) != 2 {
			t.Errorf("got %+v, %v", e, err)
		}
		time.Sleep(candidateTTL + time.Millisecond)
		if e, err = nodes[0].Election(t.Context(), "a"); err != nil || e.Winner != "n3" {
			t.Errorf("got %+v, %v a TTL later", e, err)
		}
	})
}

func TestStrategic_CandidatesOfDifferentNamesNeverMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.New()
		names := []string{"a", "a:b", "a#0", "a!candidate", "a!candidate/n", "a/b"}
		spaces := []string{"", "a", "a!candidate"}
		electors := make(map[string]*leader.Strategic)
		for _, space := range spaces {
			for _, name := range names {
				opts := []leader.Option{leader.WithNodeID("n of " + space + "|" + name)}
				if space != "" {
					opts = append(opts, leader.WithNamespace(space))
				}
				e := strategicOn(t, recording{driverOf(store)}, leader.FIFO(), opts...)
				if _, err := e.Enroll(t.Context(), name, leader.Candidate{}); err != nil {
					t.Fatal(err)
				}
				electors[space+"|"+name] = e
			}
		}
		for _, space := range spaces {
			for _, name := range names {
				e, err := electors[space+"|"+name].Election(t.Context(), name)
				if err != nil || len(e.Candidates) != 1 || e.Winner != "n of "+space+"|"+name {
					t.Errorf("%q in %q: got %+v, %v, want its own candidate", name, space, e, err)
				}
			}
		}
	})
}

func TestStrategic_IgnoresRecordsThatAreNoCandidates(t *testing.T) {
	foreign := map[string]string{
		"zz":      "\x00garbled",
		"zy":      `{"Node":"zy"}`,
		"zx":      `{"Node":"zx","Format":2}`,
		"zw":      `{"Node":"","Format":1}`,
		"zv":      `[]`,
		"zu":      ``,
		"another": `{"Node":"zt","Format":1,"Enrolment":"x"}`,
		"copy":    `{"Node":"n","Format":1,"Enrolment":"x"}`,
	}
	for id, value := range foreign {
		t.Run(id, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := local.New()
				_, err := store.PutRecord(t.Context(), backend.Record{Key: seats + id, Value: []byte(value)})
				if err != nil {
					t.Fatal(err)
				}
				n := guest(t, store, "n", leader.HighestID())
				n.d.on(func(r request) answer {
					if r.verb == puts && r.n > 100 {
						return fails(errStrange) // ends a busy loop
					}
					return nil
				})
				n.enroll(t)
				e, err := n.Election(t.Context(), "a")
				if err != nil || len(e.Candidates) != 1 || e.Winner != "n" {
					t.Errorf("got %+v, %v, want n alone", e, err)
				}
				time.Sleep(3 * heartbeat)
				if err := n.member.Err(); err != nil {
					t.Errorf("the enrolment ended: %v", err)
				}
				if got := n.run(t); got != 0 {
					t.Errorf("got %v, want a run", got)
				}
			})
		})
	}
}

func TestStrategic_Enroll_FailsOnASeatThatItCannotRead(t *testing.T) {
	for name, value := range map[string]string{"garbled": "\x00", "newer": `{"Node":"n","Format":2}`, "another": `{"Node":"m","Format":1}`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := local.New()
				_, err := store.PutRecord(t.Context(), backend.Record{Key: seats + "n", Value: []byte(value)})
				if err != nil {
					t.Fatal(err)
				}
				n := guest(t, store, "n", leader.HighestID())
				n.d.on(func(r request) answer {
					if r.verb == puts && r.n > 100 {
						return fails(errStrange) // ends a busy loop
					}
					return nil
				})
				m, err := n.Enroll(t.Context(), "a", leader.Candidate{})
				if err == nil {
					return // it took the seat, which is as good
				}
				if m != nil {
					t.Error("a membership with an error")
				}
				wantIs(t, err, leader.ErrMisconfigured)
				if sent := n.d.count(puts); sent > 5 {
					t.Errorf("%d attempts to take the seat", sent)
				}
			})
		})
	}
}

func TestStrategic_ReportsAStoreThatCannotList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, local.New(), "n", leader.FIFO())
		n.d.onVerb(lists, fails(errDown))
		r, err := n.RunIfLeader(t.Context(), "a", nothing)
		wantIs(t, err, leader.ErrUnavailable, errDown)
		if r.Attempts != 0 {
			t.Errorf("%d attempts", r.Attempts)
		}
		if got := n.run(t, leader.WithFailureMode(leader.Skip)); got != leader.BackendFailed {
			t.Errorf("got %v, want a skip", got)
		}
		time.AfterFunc(10*time.Second, n.d.heal)
		r, err = n.RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(time.Minute))
		if err != nil || !r.OK() || r.Waited > 12*time.Second {
			t.Errorf("got %v, %v after %v, want elected after the outage of 10 s", r, err, r.Waited)
		}
	})
}

func TestStrategic_RunKeysWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, local.New(), "n", leader.FIFO())
		if got := n.run(t, noonKey()); got != 0 {
			t.Errorf("got %v, want a run", got)
		}
		if got := n.run(t, noonKey()); got != leader.AlreadyRan {
			t.Errorf("got %v, want already ran", got)
		}
	})
}

func TestStrategic_RefusesItsOwnNameInsideItsAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, local.New(), "n", leader.FIFO())
		_, err := n.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
			_, err := n.RunIfLeader(ctx, "a", nothing)
			wantIs(t, err, leader.ErrReentrant)
			wantIs(t, n.Campaign(ctx, "a", nothing), leader.ErrReentrant)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestNewStrategic_RefusesWhatBreaksItsRules(t *testing.T) {
	s := leader.Scored(byTable(nil))
	rows := map[string]struct {
		strategy leader.Strategy
		opts     []leader.Option
		names    []string
	}{
		"no strategy":            {nil, nil, []string{"strategy is nil"}},
		"no TTL":                 {s, []leader.Option{leader.WithCandidateTTL(0)}, []string{"WithCandidateTTL(0s)", "must be positive"}},
		"negative TTL":           {s, []leader.Option{leader.WithCandidateTTL(-1)}, []string{"WithCandidateTTL(-1ns)", "must be positive"}},
		"no fallback":            {s, []leader.Option{leader.WithFallbackAfter(0)}, []string{"WithFallbackAfter(0s)", "must be positive"}},
		"better is NaN":          {s, []leader.Option{leader.WithHandBack(math.NaN(), time.Second)}, []string{"WithHandBack(NaN)", "not negative"}},
		"better is negative":     {s, []leader.Option{leader.WithHandBack(-1, time.Second)}, []string{"WithHandBack(-1)", "not negative"}},
		"held for nothing":       {s, []leader.Option{leader.WithHandBack(1, 0)}, []string{"WithHandBack(0s)", "must be positive"}},
		"hand-back in FIFO":      {leader.FIFO(), []leader.Option{leader.WithHandBack(1, time.Second)}, []string{"WithHandBack", "Scored"}},
		"hand-back in HighestID": {leader.HighestID(), []leader.Option{leader.WithHandBack(1, time.Second)}, []string{"WithHandBack", "Scored"}},
		"a run key":              {s, []leader.Option{leader.WithRunKey("k", time.Hour)}, []string{"WithRunKey", "belongs to one call"}},
		"several": {
			nil,
			[]leader.Option{leader.WithCandidateTTL(-1), leader.WithFallbackAfter(-1)},
			[]string{"strategy is nil", "WithCandidateTTL(-1ns)", "WithFallbackAfter(-1ns)"},
		},
		"several of all kinds": {
			leader.FIFO(),
			[]leader.Option{leader.WithCandidateTTL(-1), leader.WithHandBack(1, time.Second)},
			[]string{"WithCandidateTTL(-1ns)", "needs the strategy Scored"},
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			d := newDriver()
			e, err := leader.NewStrategic(recording{d}, row.strategy, row.opts...)
			if e != nil || d.count() != 0 {
				t.Errorf("got %v after %d requests", e, d.count())
			}
			wantIs(t, err, leader.ErrInvalidOption)
			wantNames(t, err, row.names...)
		})
	}
}

func TestNewStrategic_IsUnsupportedWithoutRecords(t *testing.T) {
	_, err := leader.NewStrategic(newDriver(), leader.FIFO())
	wantIs(t, err, leader.ErrUnsupported)
	wantNames(t, err, "scripted")
	if _, err = leader.NewStrategic(nil, leader.FIFO()); err == nil || errors.Is(err, leader.ErrUnsupported) {
		t.Errorf("got %v without a driver", err)
	}
}
