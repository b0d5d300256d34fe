package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/logger"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/hazelcastleader"
	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/internal/testserver"
)

// hazelcastClock is the name of the Flake id generator of the raw client.
const hazelcastClock = "raw-clock"

// Hazelcast is a lone member with everybody who works on it.
type Hazelcast struct {
	server *testserver.Server
	client *hazelcast.Client // of all but those who hand over
}

// NewHazelcast starts a Hazelcast; a member that [testserver.HazelcastAddrEnv] names is taken as it is.
func NewHazelcast(t testserver.TB) *Hazelcast {
	t.Helper()
	h := &Hazelcast{server: testserver.Hazelcast(t)}
	h.client = h.dial(t)
	return h
}

func (h *Hazelcast) dial(t testserver.TB) *hazelcast.Client {
	t.Helper()
	var c hazelcast.Config
	c.Logger.Level = logger.OffLevel
	c.Cluster.Network.Addresses = []string{h.server.Addr()}
	hazelcastleader.Configure(&c)
	if err := c.AddFlakeIDGenerator(hazelcastClock, 1, 0); err != nil {
		t.Fatalf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := hazelcast.StartNewClientWithConfig(ctx, c)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = client.Shutdown(context.WithoutCancel(t.Context())) })
	return client
}

func (h *Hazelcast) driver(t testserver.TB, client *hazelcast.Client) *hazelcastleader.Backend {
	t.Helper()
	d := hazelcastleader.New(client, nil)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// Run returns a RunIfLeader.
func (h *Hazelcast) Run(t testserver.TB) Op { return run(newElector(t, h.driver(t, h.client)), "run") }

// Skip returns a RunIfLeader while another holds the name.
func (h *Hazelcast) Skip(t testserver.TB) Op {
	hold(t, newElector(t, h.driver(t, h.client)), "skip")
	return skip(newElector(t, h.driver(t, h.client)), "skip", leader.Contended)
}

// Handoff returns the hand-off between two electors, each with a client of its own.
func (h *Hazelcast) Handoff(t testserver.TB) contest.Way {
	return newRelay(t, h.driver(t, h.dial(t)), h.driver(t, h.dial(t)), 0).pass
}

// Floor returns the requests of the driver for a RunIfLeader of a key that others may have had, by the raw client: the
// entry is read beside the clock, and changed twice.
func (h *Hazelcast) Floor(t testserver.TB) Op {
	term := h.record(t, "floor")
	clock, leases := h.clock(t, h.client), h.leases(t, h.client)
	return func(ctx context.Context) error {
		found, err := lookAt(ctx, leases, clock, term.key)
		if err != nil {
			return err
		}
		_, err = term.pass(ctx, leases, found)
		return err
	}
}

// RepeatFloor returns the requests of the driver for a RunIfLeader of a key that nobody else has had, by the raw client:
// the clock is read, and the entry changed twice.
func (h *Hazelcast) RepeatFloor(t testserver.TB) Op {
	term := h.record(t, "repeat floor")
	clock, leases := h.clock(t, h.client), h.leases(t, h.client)
	var last any = term.freed
	return func(ctx context.Context) error {
		_, err := clock.NewID(ctx)
		if err == nil {
			last, err = term.pass(ctx, leases, last)
		}
		return err
	}
}

// SkipFloor returns the requests by which the driver finds a key held, by the raw client.
func (h *Hazelcast) SkipFloor(t testserver.TB) Op {
	const key = "skip floor"
	hold(t, newElector(t, h.driver(t, h.client)), key)
	clock, leases := h.clock(t, h.client), h.leases(t, h.client)
	return func(ctx context.Context) error {
		_, err := lookAt(ctx, leases, clock, key)
		return err
	}
}

// PutRemove returns a lock that is put where there is none, and removed. It gives no fence, and has no end.
func (h *Hazelcast) PutRemove(t testserver.TB) Op {
	locks, err := h.client.GetMap(t.Context(), "locks")
	if err != nil {
		t.Fatalf("%v", err)
	}
	return func(ctx context.Context) error {
		found, err := locks.PutIfAbsent(ctx, "run", rand.Text())
		if err != nil || found != nil {
			return errors.Join(err, fmt.Errorf("%w: %v", errRefused, found))
		}
		_, err = locks.Remove(ctx, "run")
		return err
	}
}

// RawHandoff returns the hand-off by raw clients and the driver's own changes: one releases; another, who listens, hears
// of it and acquires. The time ends with the answer.
func (h *Hazelcast) RawHandoff(t testserver.TB) contest.Way {
	t.Helper()
	term := h.record(t, "raw hand-off")
	one, two := h.dial(t), h.dial(t)
	from, to := h.leases(t, one), h.leases(t, two)
	changes := make(chan struct{}, 8)
	listener := hazelcast.MapListener{EntryUpdated: func(*hazelcast.EntryNotified) { changes <- struct{}{} }}
	if _, err := to.AddListenerWithKey(t.Context(), listener, term.key, true); err != nil {
		t.Fatalf("%v", err)
	}
	last := term.freed
	return func(ctx context.Context) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		held, freed, next := term.fresh(term.held), term.fresh(term.freed), term.fresh(term.held)
		if err := errors.Join(change(ctx, from, term.key, last, held), awaitChange(ctx, changes)); err != nil {
			return 0, err
		}
		took, err := pass(func() error {
			if err := awaitChange(ctx, changes); err != nil {
				return err
			}
			return change(ctx, to, term.key, freed, next)
		}, func() error { return change(ctx, from, term.key, held, freed) })
		if err != nil {
			return 0, err
		}
		last = term.fresh(term.freed)
		err = change(ctx, to, term.key, next, last)
		return took, errors.Join(err, awaitChange(ctx, changes), awaitChange(ctx, changes))
	}
}

func awaitChange(ctx context.Context, changes <-chan struct{}) error {
	select {
	case <-changes:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Hazelcast) leases(t testserver.TB, client *hazelcast.Client) *hazelcast.Map {
	t.Helper()
	m, err := client.GetMap(t.Context(), hazelcastleader.DefaultMap)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return m
}

func (h *Hazelcast) clock(t testserver.TB, client *hazelcast.Client) *hazelcast.FlakeIDGenerator {
	t.Helper()
	clock, err := client.GetFlakeIDGenerator(t.Context(), hazelcastClock)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return clock
}

// lookAt reads an entry and the clock at once.
func lookAt(ctx context.Context, m *hazelcast.Map, clock *hazelcast.FlakeIDGenerator, key string) (any, error) {
	told := make(chan error, 1)
	go func() {
		_, err := clock.NewID(ctx)
		told <- err
	}()
	found, err := m.Get(ctx, key)
	if err == nil && found == nil {
		err = errRefused
	}
	return found, errors.Join(err, <-told)
}

// hazelcastTerm is what the driver writes for a term of a key. The client shows nobody what is sent, so it is taken from
// what the driver leaves behind.
type hazelcastTerm struct {
	key         string
	held, freed string // the values of the entry
	token       string // that is in both
}

// fresh is a value with a token of its own.
func (s *hazelcastTerm) fresh(value string) string {
	return strings.Replace(value, s.token, rand.Text(), 1)
}

// pass makes a term of an entry that has the value found, and returns the value that it has then.
func (s *hazelcastTerm) pass(ctx context.Context, m *hazelcast.Map, found any) (last string, err error) {
	held := s.fresh(s.held)
	if err := change(ctx, m, s.key, found, held); err != nil {
		return "", err
	}
	last = s.fresh(s.freed)
	return last, change(ctx, m, s.key, held, last)
}

// change replaces the value found by another.
func change(ctx context.Context, m *hazelcast.Map, key string, found any, next string) error {
	changed, err := m.ReplaceIfSame(ctx, key, found, next)
	if err == nil && !changed {
		err = errRefused
	}
	return err
}

// record looks at what the driver leaves behind after an acquisition and after a release of key.
func (h *Hazelcast) record(t testserver.TB, key string) *hazelcastTerm {
	t.Helper()
	driver, leases := h.driver(t, h.client), h.leases(t, h.client)
	s := &hazelcastTerm{key: key, token: rand.Text()}
	look := func() string {
		found, err := leases.Get(t.Context(), key)
		text, ok := found.(string)
		if err != nil || !ok || strings.Count(text, s.token) != 1 {
			t.Fatalf("what the driver writes for a term: %v, %v", found, err)
		}
		return text
	}
	req := backend.Request{Key: key, Token: s.token, Owner: owner, TTL: lease}
	l, err := driver.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatalf("record a term: %v", err)
	}
	s.held = look()
	if err := l.Release(t.Context(), 0); err != nil {
		t.Fatalf("record a term: %v", err)
	}
	s.freed = look()
	return s
}
