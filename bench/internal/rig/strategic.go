package rig

import (
	"context"
	"fmt"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/redisleader"
	"github.com/goleader/leader/internal/testserver"
)

// candidateTTL is so long that no heartbeat comes in between, and that a view of the candidates stays fresh.
const candidateTTL = time.Hour

// The candidates of most names. The strategy prefers the highest.
const (
	lowNode    = "node-1"
	middleNode = "node-2"
	highNode   = "node-3"
)

// A Count does an operation so many times and returns how many requests that took for each.
type Count = func(ctx context.Context, times int) (float64, error)

// StrategicRun returns a RunIfLeader of the preferred one of three candidates.
func (r *Redis) StrategicRun(t testserver.TB) Op {
	return run(r.candidate(t, r.driver(t, r.client), "strategic", highNode, middleNode, lowNode), "strategic")
}

// StrategicRequests counts the requests of a RunIfLeader of the preferred one of three candidates.
func (r *Redis) StrategicRequests(t testserver.TB) Count {
	return r.count(t, func(d backend.Driver) Op {
		const name = "strategic-requests"
		return run(r.candidate(t, d, name, highNode, middleNode, lowNode), name)
	})
}

// StrategicSkipRequests counts the requests of a RunIfLeader of a candidate whose fresh view says that another one of
// three is preferred.
func (r *Redis) StrategicSkipRequests(t testserver.TB) Count {
	return r.count(t, func(d backend.Driver) Op {
		const name = "strategic-skip-requests"
		return skip(r.candidate(t, d, name, lowNode, middleNode, highNode), name, leader.NotPreferred)
	})
}

// Listing returns an Election among n candidates.
func (r *Redis) Listing(t testserver.TB, n int) Op {
	t.Helper()
	nodes := make([]string, n)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("node-%d", i)
	}
	elector := newStrategic(t, r.driver(t, r.client), owner)
	enroll(t, elector, "listing", nodes...)
	return func(ctx context.Context) error {
		election, err := elector.Election(ctx, "listing")
		if err == nil && len(election.Candidates) != n {
			err = fmt.Errorf("%d candidates, not %d", len(election.Candidates), n)
		}
		return err
	}
}

// candidate returns the elector of a node that is enrolled for name, and has seen the others that are.
func (r *Redis) candidate(t testserver.TB, d backend.Driver, name, node string, others ...string) *leader.Strategic {
	t.Helper()
	for _, other := range others {
		enroll(t, newStrategic(t, r.driver(t, r.client), other), name, other)
	}
	elector := newStrategic(t, d, node)
	enroll(t, elector, name, node)
	if _, err := elector.Election(t.Context(), name); err != nil {
		t.Fatalf("%v", err)
	}
	return elector
}

// unadvised is a driver that never looks at the server's settings, which it does once at a time of its own.
type unadvised struct{ *redisleader.Backend }

// Advise implements [backend.Advisor].
func (unadvised) Advise(context.Context) ([]string, error) { return nil, nil }

// count counts the requests of an Op on a client of its own.
func (r *Redis) count(t testserver.TB, start func(d backend.Driver) Op) Count {
	t.Helper()
	client := r.dial(t)
	var rec recorder
	client.AddHook(&rec)
	op := start(unadvised{r.driver(t, client)})
	if err := op(t.Context()); err != nil { // loads scripts, which takes requests of its own
		t.Fatalf("warm-up: %v", err)
	}
	if rec.count() == 0 {
		t.Fatalf("the requests of the warm-up were not seen")
	}
	return func(ctx context.Context, times int) (float64, error) {
		rec.forget()
		for range times {
			if err := op(ctx); err != nil {
				return 0, err
			}
		}
		return float64(rec.count()) / float64(times), nil
	}
}

func newStrategic(t testserver.TB, d backend.Driver, node string) *leader.Strategic {
	t.Helper()
	elector, err := leader.NewStrategic(d, leader.HighestID(),
		options(leader.WithNodeID(node), leader.WithCandidateTTL(candidateTTL))...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return elector
}

// enroll makes nodes candidates of name until the clean-up.
func enroll(t testserver.TB, elector *leader.Strategic, name string, nodes ...string) {
	t.Helper()
	ctx := t.Context()
	members := make([]*leader.Membership, len(nodes))
	err := each(len(nodes), func(i int) (err error) {
		members[i], err = elector.Enroll(ctx, name, leader.Candidate{Node: nodes[i]})
		return err
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		_ = each(len(members), func(i int) error { return members[i].Leave(context.WithoutCancel(ctx)) })
	})
}
