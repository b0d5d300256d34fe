package zkleader

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/benchtest"
	"github.com/goleader/leader/internal/testserver"
)

// raw sends the requests of the driver by the client alone, for one key.
type raw struct {
	conn    *zk.Conn
	path    string
	version int32
	child   string
	data    []byte
}

// benchRaw is a raw client and a driver on one server, with a session each.
func benchRaw(b *testing.B) (*raw, *Backend) {
	b.Helper()
	addr := testserver.ZooKeeper(b).Addr()
	d := New([]string{addr}, &Options{SessionTimeout: time.Minute})
	b.Cleanup(func() { _ = d.Close() })
	conn, events, err := zk.Connect([]string{addr}, time.Minute, zk.WithLogger(silence{}), zk.WithLogInfo(false))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(conn.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	r := &raw{conn: conn, path: "/raw"}
	if _, err := conn.Create(r.path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		b.Fatal(err)
	}
	r.data = record{
		Format: format, Token: rand.Text(), Session: 1 << 60, Owner: "node-1", TTL: 30_000, Spent: rand.Text(),
	}.encode()
	return r, d
}

func (r *raw) acquire() error {
	r.child = childOf(r.path, rand.Text())
	answers, err := r.conn.Multi(
		&zk.SetDataRequest{Path: r.path, Data: r.data, Version: r.version},
		&zk.CreateRequest{Path: r.child, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral})
	if err == nil {
		r.version = answers[0].Stat.Version
	}
	return err
}

func (r *raw) release() error {
	answers, err := r.conn.Multi(
		&zk.SetDataRequest{Path: r.path, Data: r.data[:60], Version: r.version},
		&zk.DeleteRequest{Path: r.child, Version: -1})
	if err == nil {
		r.version = answers[0].Stat.Version
	}
	return err
}

func elector(b *testing.B, d backend.Driver) *leader.Single {
	b.Helper()
	e, err := leader.New(d, leader.WithLeaseTime(30*time.Second), leader.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// BenchmarkAcquireRelease compares the driver, and a whole run, with their own two requests by the raw client, with
// the bare creation and deletion of an ephemeral node, and with the client's own lock.
func BenchmarkAcquireRelease(b *testing.B) {
	r, d := benchRaw(b)
	e := elector(b, d)
	lock := zk.NewLock(r.conn, "/lock", zk.WorldACL(zk.PermAll))
	var c benchtest.Contest
	c.Add("bare", func(context.Context) error {
		if _, err := r.conn.Create("/bare", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			return err
		}
		return r.conn.Delete("/bare", -1)
	})
	c.Add("requests", func(context.Context) error {
		if err := r.acquire(); err != nil {
			return err
		}
		return r.release()
	})
	c.Add("lock", func(context.Context) error {
		if err := lock.Lock(); err != nil {
			return err
		}
		return lock.Unlock()
	})
	c.Add("driver", func(ctx context.Context) error {
		req := backend.Request{Key: "driver", Token: rand.Text(), Owner: "node-1", TTL: 30 * time.Second}
		l, err := d.TryAcquire(ctx, req)
		if err != nil {
			return err
		}
		return l.Release(ctx, 0)
	})
	c.Add("run", func(ctx context.Context) error {
		res, err := e.RunIfLeader(ctx, "run", func(context.Context) error { return nil })
		if err == nil && !res.OK() {
			err = errors.New("not elected")
		}
		return err
	})
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "requests", "bare")
	benchtest.Ratio(b, medians, "driver", "requests")
	benchtest.Ratio(b, medians, "run", "requests")
	benchtest.Ratio(b, medians, "run", "lock")
}

// BenchmarkHeld compares a losing attempt, and a run that is skipped, with their own request by the raw client.
func BenchmarkHeld(b *testing.B) {
	r, d := benchRaw(b)
	e := elector(b, d)
	other := New(d.servers, &Options{SessionTimeout: time.Minute})
	b.Cleanup(func() { _ = other.Close() })
	win := backend.Request{Key: "held", Token: rand.Text(), Owner: "node-1", TTL: time.Minute}
	if _, err := other.TryAcquire(b.Context(), win); err != nil {
		b.Fatal(err)
	}
	var c benchtest.Contest
	c.Add("get", func(context.Context) error {
		_, _, err := r.conn.Get(d.path("held"))
		return err
	})
	c.Add("driver", func(ctx context.Context) error {
		req := backend.Request{Key: "held", Token: rand.Text(), Owner: "node-2", TTL: 30 * time.Second}
		if _, err := d.TryAcquire(ctx, req); !errors.Is(err, backend.ErrHeld) {
			return errors.New("not refused")
		}
		return nil
	})
	c.Add("skip", func(ctx context.Context) error {
		res, err := e.RunIfLeader(ctx, "held", func(context.Context) error { return nil })
		if err == nil && res.Outcome != leader.Skipped {
			err = errors.New("not skipped")
		}
		return err
	})
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "driver", "get")
	benchtest.Ratio(b, medians, "skip", "get")
}

// BenchmarkHandOff times, from one session to another, a write, its event and a write; the same by the driver; and
// from the call of Release to the start of the action of a run that waits.
func BenchmarkHandOff(b *testing.B) {
	r, d := benchRaw(b)
	other := New(d.servers, &Options{SessionTimeout: time.Minute})
	b.Cleanup(func() { _ = other.Close() })
	from, to := elector(b, other), elector(b, d)
	times := map[string][]time.Duration{}
	for b.Loop() {
		for name, way := range map[string]func() (time.Duration, error){
			"raw":    func() (time.Duration, error) { return r.handOff() },
			"driver": func() (time.Duration, error) { return handOff(b.Context(), other, d) },
			"run":    func() (time.Duration, error) { return handOver(b.Context(), from, to) },
		} {
			took, err := way()
			if err != nil {
				b.Fatal(name, err)
			}
			times[name] = append(times[name], took)
		}
	}
	medians := map[string]time.Duration{}
	for name, list := range times {
		slices.Sort(list)
		medians[name] = list[len(list)/2]
		b.ReportMetric(float64(medians[name].Nanoseconds())/1e3, name+"-µs")
	}
	benchtest.Ratio(b, medians, "driver", "raw")
	benchtest.Ratio(b, medians, "run", "raw")
}

// linger lets a waiter mostly wait before what it waits for happens.
const linger = 3 * time.Millisecond

// handOff deletes an ephemeral node, which somebody watches who then creates it.
func (r *raw) handOff() (time.Duration, error) {
	if err := r.acquire(); err != nil {
		return 0, err
	}
	_, _, gone, err := r.conn.ExistsW(r.child)
	if err != nil {
		return 0, err
	}
	time.Sleep(linger)
	began := time.Now()
	if err := r.release(); err != nil {
		return 0, err
	}
	<-gone
	if err := r.acquire(); err != nil {
		return 0, err
	}
	took := time.Since(began)
	return took, r.release()
}

// handOff releases a lease for which another backend waits.
func handOff(ctx context.Context, from, to *Backend) (time.Duration, error) {
	req := backend.Request{Key: "driver", Owner: "node-1", TTL: time.Minute}
	req.Token = rand.Text()
	l, err := from.TryAcquire(ctx, req)
	if err != nil {
		return 0, err
	}
	h, err := to.Inspect(ctx, req.Key)
	if err != nil {
		return 0, err
	}
	woken := make(chan error, 1)
	go func() { woken <- to.AwaitRelease(ctx, req.Key, h.Seen) }()
	time.Sleep(linger)
	began := time.Now()
	if err := l.Release(ctx, 0); err != nil {
		return 0, err
	}
	if err := <-woken; err != nil {
		return 0, err
	}
	req.Token = rand.Text()
	if l, err = to.TryAcquire(ctx, req); err != nil {
		return 0, err
	}
	took := time.Since(began)
	return took, l.Release(ctx, 0)
}

// handOver releases a lease for which another elector waits.
func handOver(ctx context.Context, from, to *leader.Single) (time.Duration, error) {
	l, err := from.Acquire(ctx, "run")
	if err != nil {
		return 0, err
	}
	ran := make(chan time.Time, 1)
	failed := make(chan error, 1)
	go func() {
		_, err := to.RunIfLeader(ctx, "run", func(context.Context) error {
			ran <- time.Now()
			return nil
		}, leader.WithWaitTime(time.Minute))
		failed <- err
	}()
	time.Sleep(2 * linger)
	began := time.Now()
	if err := l.Release(ctx); err != nil {
		return 0, err
	}
	if err := <-failed; err != nil {
		return 0, err
	}
	return (<-ran).Sub(began), nil
}
