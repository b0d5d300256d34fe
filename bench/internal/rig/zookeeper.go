package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/zkleader"
	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/internal/testserver"
)

// ZooKeeper is a server with everybody who works on it.
type ZooKeeper struct {
	server *testserver.Server
	conn   *zk.Conn // of all but the drivers, each of which has a session of its own
}

// NewZooKeeper starts a ZooKeeper, which does not wait for its disk; one that [testserver.ZooKeeperAddrEnv] names is
// taken as it is.
func NewZooKeeper(t testserver.TB) *ZooKeeper {
	t.Helper()
	z := &ZooKeeper{server: testserver.ZooKeeper(t)}
	z.conn = z.dial(t)
	return z
}

// dial returns a client that has a session.
func (z *ZooKeeper) dial(t testserver.TB) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{z.server.Addr()}, lease, zk.WithLogger(mute{}), zk.WithLogInfo(false))
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(conn.Close)
	timeout := time.After(patience)
	for {
		select {
		case event := <-events:
			if event.State == zk.StateHasSession {
				return conn
			}
		case <-timeout:
			t.Fatalf("no session within %v", patience)
		}
	}
}

// mute is a logger.
type mute struct{}

func (mute) Printf(string, ...any) {}

// driver has a session of its own, whose timeout has to be as long as a lease.
func (z *ZooKeeper) driver(t testserver.TB) *zkleader.Backend {
	t.Helper()
	d := zkleader.New([]string{z.server.Addr()}, &zkleader.Options{SessionTimeout: lease})
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// Run returns a RunIfLeader.
func (z *ZooKeeper) Run(t testserver.TB) Op { return run(newElector(t, z.driver(t)), "run") }

// Skip returns a RunIfLeader while another holds the name.
func (z *ZooKeeper) Skip(t testserver.TB) Op {
	hold(t, newElector(t, z.driver(t)), "skip")
	return skip(newElector(t, z.driver(t)), "skip", leader.Contended)
}

// Handoff returns the hand-off between two electors, each with a session of its own.
func (z *ZooKeeper) Handoff(t testserver.TB) contest.Way {
	return newRelay(t, z.driver(t), z.driver(t), 0).pass
}

// Floor returns the two transactions of the driver for a RunIfLeader, by the raw client.
func (z *ZooKeeper) Floor(t testserver.TB) Op {
	term := z.record(t, "floor")
	version := term.version
	return func(context.Context) error {
		held, err := term.acquire(z.conn, version, rand.Text())
		if err != nil {
			return err
		}
		err = term.release(z.conn, version+1, held)
		version += 2
		return err
	}
}

// SkipFloor returns the read by which the driver finds a key held, by the raw client.
func (z *ZooKeeper) SkipFloor(t testserver.TB) Op {
	t.Helper()
	term := z.record(t, "skip floor")
	hold(t, newElector(t, z.driver(t)), "skip floor")
	return func(context.Context) error {
		_, stat, err := z.conn.Get(term.path)
		if err == nil && stat.NumChildren == 0 {
			err = errors.New("the key is not held")
		}
		return err
	}
}

// RawHandoff returns the hand-off by raw clients and the driver's own transactions: one releases; another, who watches
// the node of the term, hears of it and acquires. The time ends with the answer.
func (z *ZooKeeper) RawHandoff(t testserver.TB) contest.Way {
	t.Helper()
	term := z.record(t, "raw hand-off")
	from, to := z.dial(t), z.dial(t)
	version := term.version
	return func(ctx context.Context) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		held, err := term.acquire(from, version, rand.Text())
		if err != nil {
			return 0, err
		}
		_, _, gone, err := to.ExistsW(held)
		if err != nil {
			return 0, err
		}
		var next string
		took, err := pass(func() (err error) {
			if err = awaitEvent(ctx, gone); err == nil {
				next, err = term.acquire(to, version+2, rand.Text())
			}
			return err
		}, func() error { return term.release(from, version+1, held) })
		if err != nil {
			return 0, err
		}
		err = term.release(to, version+3, next)
		version += 4
		return took, err
	}
}

func awaitEvent(ctx context.Context, events <-chan zk.Event) error {
	select {
	case event := <-events:
		return event.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Lock returns an acquisition and a release by the client's own lock.
func (z *ZooKeeper) Lock() Op {
	lock := zk.NewLock(z.conn, "/lock", zk.WorldACL(zk.PermAll))
	return func(context.Context) error {
		if err := lock.Lock(); err != nil {
			return err
		}
		return lock.Unlock()
	}
}

// LockHandoff returns the hand-off between two locks, each with a session of its own.
func (z *ZooKeeper) LockHandoff(t testserver.TB) contest.Way {
	t.Helper()
	from := zk.NewLock(z.dial(t), "/lock-hand-off", zk.WorldACL(zk.PermAll))
	to := zk.NewLock(z.dial(t), "/lock-hand-off", zk.WorldACL(zk.PermAll))
	return func(context.Context) (time.Duration, error) {
		if err := from.Lock(); err != nil {
			return 0, err
		}
		took, err := pass(to.Lock, from.Unlock)
		if err != nil {
			return 0, err
		}
		return took, to.Unlock()
	}
}
