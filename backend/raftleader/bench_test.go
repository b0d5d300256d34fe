package raftleader

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/benchtest"
)

const (
	// rawEntry is as large as a command of this package.
	rawEntry = 120
	// benchElection is so long that a busy machine does not cost the leader its office.
	benchElection = 2 * time.Second
)

// rawCluster is the raft library by itself: three nodes with the same kind of log, and a state that only counts.
type rawCluster struct {
	nodes  []*raft.Raft
	states []*rawState
	leads  int
}

// rawState tells of each entry.
type rawState struct{ applied chan struct{} }

// Apply implements [raft.FSM].
func (s *rawState) Apply(*raft.Log) any {
	select {
	case s.applied <- struct{}{}:
	default:
	}
	return nil
}

// Snapshot implements [raft.FSM].
func (*rawState) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("not in a benchmark") }

// Restore implements [raft.FSM].
func (*rawState) Restore(r io.ReadCloser) error { return r.Close() }

// newRawCluster starts a cluster in a folder, in memory if it is empty.
func newRawCluster(b *testing.B, dir string) *rawCluster {
	b.Helper()
	c := &rawCluster{}
	var servers []raft.Server
	var transports []*raft.NetworkTransport
	for i := range crewSize {
		t, err := raft.NewTCPTransportWithLogger("127.0.0.1:0", nil, 3, time.Second, hclog.NewNullLogger())
		if err != nil {
			b.Fatal(err)
		}
		transports = append(transports, t)
		servers = append(servers, raft.Server{ID: raft.ServerID(strconv.Itoa(i)), Address: t.LocalAddr()})
	}
	for i, t := range transports {
		config := raft.DefaultConfig()
		config.LocalID, config.Logger, config.SnapshotThreshold = servers[i].ID, hclog.NewNullLogger(), 1<<40
		config.HeartbeatTimeout, config.ElectionTimeout, config.LeaderLeaseTimeout = benchElection, benchElection, benchElection/2
		var log raft.LogStore = raft.NewInmemStore()
		if dir != "" {
			file, err := raftboltdb.NewBoltStore(filepath.Join(dir, strconv.Itoa(i)))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = file.Close() })
			log = file
		}
		s := &rawState{applied: make(chan struct{}, 1)}
		r, err := raft.NewRaft(config, s, log, log.(raft.StableStore), raft.NewInmemSnapshotStore(), t)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = r.Shutdown().Error(); _ = t.Close() })
		c.nodes, c.states = append(c.nodes, r), append(c.states, s)
	}
	if err := c.nodes[0].BootstrapCluster(raft.Configuration{Servers: servers}).Error(); err != nil {
		b.Fatal(err)
	}
	until(b, "a raw node leads", func() bool {
		for i, r := range c.nodes {
			if r.State() == raft.Leader {
				c.leads = i
				return true
			}
		}
		return false
	})
	return c
}

// commit commits one entry.
func (c *rawCluster) commit(context.Context) error {
	return c.nodes[c.leads].Apply(make([]byte, rawEntry), time.Second).Error()
}

// handOff commits an entry, hears of it where the leader is, and commits another one.
func (c *rawCluster) handOff(ctx context.Context) (time.Duration, error) {
	applied := c.states[c.leads].applied
	for len(applied) > 0 {
		<-applied
	}
	began := time.Now()
	released := make(chan error, 1)
	go func() { released <- c.commit(ctx) }()
	<-applied
	err := c.commit(ctx)
	return time.Since(began), errors.Join(err, <-released)
}

func benchElector(b *testing.B, d backend.Driver) *leader.Single {
	b.Helper()
	e, err := leader.New(d, leader.WithLeaseTime(30*time.Second), leader.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// benchCrew starts a cluster whose nodes reach each other without proxies, and returns its leader's node first.
func benchCrew(b *testing.B, dir string) []*Backend {
	b.Helper()
	listeners, addrs := listen(b, crewSize)
	var nodes []*Backend
	for i, l := range listeners {
		c := Config{Addr: addrs[i], Peers: addrs, ElectionTimeout: benchElection, hooks: hooks{listener: l}}
		if dir != "" {
			c.Dir = filepath.Join(dir, strconv.Itoa(i))
		}
		node, err := Open(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = node.Close() })
		nodes = append(nodes, node)
	}
	until(b, "a node leads three voters", func() bool {
		for i, node := range nodes {
			if node.office.Load() != nil && node.voters() == crewSize {
				nodes[0], nodes[i] = nodes[i], nodes[0]
				return true
			}
		}
		return false
	})
	return nodes
}

// withLogs runs a benchmark with either kind of log.
func withLogs(b *testing.B, bench func(b *testing.B, dir func() string)) {
	b.Helper()
	b.Run("disk", func(b *testing.B) { bench(b, b.TempDir) })
	b.Run("memory", func(b *testing.B) { bench(b, func() string { return "" }) })
}

// BenchmarkAcquireRelease compares the driver, and the engine above it, with one committed entry of the raft library by
// itself, over the same kind of log. Both take two entries.
func BenchmarkAcquireRelease(b *testing.B) {
	withLogs(b, func(b *testing.B, dir func() string) {
		raw, nodes := newRawCluster(b, dir()), benchCrew(b, dir())
		var c benchtest.Contest
		c.Add("entry", raw.commit)
		c.Add("driver", func(ctx context.Context) error {
			req := backend.Request{Key: "driver", Token: rand.Text(), Owner: "node-1", TTL: 30 * time.Second}
			lease, err := nodes[0].TryAcquire(ctx, req)
			if err != nil {
				return err
			}
			return lease.Release(ctx, 0)
		})
		for i, name := range []string{"run", "forwarded"} {
			elector := benchElector(b, nodes[i])
			c.Add(name, func(ctx context.Context) error {
				_, err := elector.RunIfLeader(ctx, name, func(context.Context) error { return nil })
				return err
			})
		}
		medians := c.Run(b)
		benchtest.Ratio(b, medians, "driver", "entry")
		benchtest.Ratio(b, medians, "run", "entry")
		benchtest.Ratio(b, medians, "forwarded", "entry")
	})
}

// BenchmarkHeld compares losing attempts with the question of the raft library whether it still leads.
func BenchmarkHeld(b *testing.B) {
	raw, nodes := newRawCluster(b, ""), benchCrew(b, "")
	win := backend.Request{Key: "held", Token: rand.Text(), Owner: "node-1", TTL: time.Hour}
	if _, err := nodes[0].TryAcquire(b.Context(), win); err != nil {
		b.Fatal(err)
	}
	var c benchtest.Contest
	c.Add("verify", func(context.Context) error { return raw.nodes[raw.leads].VerifyLeader().Error() })
	c.Add("driver", func(ctx context.Context) error {
		req := backend.Request{Key: "held", Token: rand.Text(), Owner: "node-2", TTL: 30 * time.Second}
		if _, err := nodes[0].TryAcquire(ctx, req); !errors.Is(err, backend.ErrHeld) {
			return errors.Join(errors.New("not refused"), err)
		}
		return nil
	})
	elector := benchElector(b, nodes[0])
	c.Add("skip", func(ctx context.Context) error {
		r, err := elector.RunIfLeader(ctx, "held", func(context.Context) error { return nil }, leader.WithWaitTime(0))
		if err == nil && r.Outcome != leader.Skipped {
			err = errors.New("not skipped")
		}
		return err
	})
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "driver", "verify")
	benchtest.Ratio(b, medians, "skip", "verify")
}

// BenchmarkHandOff times a release up to the start of the waiter's action, on another node, and the same with the raft
// library by itself: an entry, its being applied, and another entry.
func BenchmarkHandOff(b *testing.B) {
	withLogs(b, func(b *testing.B, dir func() string) {
		raw, nodes := newRawCluster(b, dir()), benchCrew(b, dir())
		var c benchtest.Contest
		c.AddTimed("raw", raw.handOff)
		c.AddTimed("run", runHandOff(benchElector(b, nodes[0]), benchElector(b, nodes[1])))
		c.AddTimed("followers", runHandOff(benchElector(b, nodes[1]), benchElector(b, nodes[2])))
		medians := c.Run(b)
		benchtest.Ratio(b, medians, "run", "raw")
		benchtest.Ratio(b, medians, "followers", "raw")
	})
}

// benchSettle is how long a waiter gets until it waits.
const benchSettle = 5 * time.Millisecond

func runHandOff(here, there *leader.Single) func(ctx context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		lease, err := here.Acquire(ctx, "run")
		if err != nil {
			return 0, err
		}
		var led time.Time
		over := make(chan error, 1)
		go func() {
			_, err := there.RunIfLeader(ctx, "run", func(context.Context) error {
				led = time.Now()
				return nil
			}, leader.WithWaitTime(time.Minute))
			over <- err
		}()
		time.Sleep(benchSettle)
		began := time.Now()
		err = errors.Join(lease.Release(ctx), <-over)
		return led.Sub(began), err
	}
}
