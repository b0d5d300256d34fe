package consulleader_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goleader/leader"
)

func TestElector_ExtendOutlastsTheLeaseThoughARenewalOnlyRepeatsIt(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	e := elector(t, open(t, connect(t, server), nil), "holder")
	l, err := e.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Extend(t.Context(), 3*ttl); err != nil {
		t.Fatal(err)
	}
	<-time.After(5 * ttl / 2)
	if err := l.Err(); err != nil {
		t.Errorf("lost: %v", err)
	}
	if h := inspect(t, open(t, connect(t, server), nil), "job"); h.Fence != l.Info().Fence {
		t.Errorf("the store has %+v", h)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestElector_AMinimumLeaseIsKeptAndHandedOn(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	first := elector(t, open(t, connect(t, server), nil), "first")
	second := elector(t, open(t, connect(t, server), nil), "second")
	const least = 2 * time.Second
	began := time.Now()
	r, err := first.RunIfLeader(t.Context(), "job", nothing, leader.WithMinLease(least))
	if err != nil || !r.OK() {
		t.Fatal(r, err)
	}
	if s, err := second.State(t.Context(), "job"); err != nil || !s.Kept {
		t.Errorf("state %+v, %v", s, err)
	}
	if r, err := second.RunIfLeader(t.Context(), "job", nothing); err != nil || r.Outcome != leader.Skipped {
		t.Errorf("while it is kept: %v, %v", r, err)
	}
	r, err = second.RunIfLeader(t.Context(), "job", nothing, leader.WithWaitTime(patience))
	if took := time.Since(began); err != nil || !r.OK() || took < least || took > least+5*time.Second {
		t.Errorf("%v, %v after %v", r, err, took)
	}
}

func TestElector_ARunKeyIsUsedOnce(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	var runs atomic.Int64
	for _, node := range []string{"first", "second", "first"} {
		e := elector(t, open(t, connect(t, server), nil), node)
		_, err := e.RunIfLeader(t.Context(), "job", func(context.Context) error {
			runs.Add(1)
			return nil
		}, leader.WithRunKey("2026-01-01", 48*time.Hour))
		if err != nil {
			t.Error(err)
		}
	}
	if runs.Load() != 1 {
		t.Errorf("%d runs", runs.Load())
	}
}

func TestGroup_HasAsManyLeadersAsSlots(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	const slots, nodes = 2, 4
	var leading, most atomic.Int64
	done := make(chan error, nodes)
	for range nodes {
		g, err := leader.NewGroup(open(t, connect(t, server), nil), slots, leader.WithLeaseTime(ttl))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			r, err := g.RunIfLeader(t.Context(), "job", func(context.Context) error {
				now := leading.Add(1)
				for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
				}
				<-time.After(brief)
				leading.Add(-1)
				return nil
			}, leader.WithWaitTime(patience))
			if err == nil && !r.OK() {
				err = errors.New(r.String())
			}
			done <- err
		}()
	}
	for range nodes {
		if err := result(t, "a member has run", done); err != nil {
			t.Error(err)
		}
	}
	if most.Load() != slots {
		t.Errorf("%d led at a time, want %d", most.Load(), slots)
	}
}

func TestStrategic_ThePreferredCandidateRuns(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	electors := map[string]*leader.Strategic{}
	for _, node := range []string{"first", "second"} {
		e, err := leader.NewStrategic(open(t, connect(t, server), nil), leader.FIFO(),
			leader.WithLeaseTime(ttl), leader.WithNodeID(node))
		if err != nil {
			t.Fatal(err)
		}
		m, err := e.Enroll(t.Context(), "job", leader.Candidate{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Leave(context.WithoutCancel(t.Context())) })
		electors[node] = e
	}
	for range 3 {
		for node, e := range electors {
			r, err := e.RunIfLeader(t.Context(), "job", nothing)
			if err != nil || (r.Outcome == leader.Elected) != (node == "first") {
				t.Errorf("%s: %v, %v", node, r, err)
			}
		}
	}
	<-time.After(3 * ttl) // some heartbeats: the default TTL of a candidate is 15 s
	election, err := electors["second"].Election(t.Context(), "job")
	if err != nil || election.Winner != "first" {
		t.Errorf("election %+v, %v", election, err)
	}
}

func nothing(context.Context) error { return nil }
