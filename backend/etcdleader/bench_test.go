package etcdleader

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/benchtest"
	"github.com/goleader/leader/internal/testserver"
)

func benchClient(b *testing.B, addr string) *clientv3.Client {
	b.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	return client
}

func benchDriver(b *testing.B, client *clientv3.Client) *Backend {
	b.Helper()
	driver := New(client, nil)
	b.Cleanup(func() { _ = driver.Close() })
	return driver
}

func benchElector(b *testing.B, driver backend.Driver) *leader.Single {
	b.Helper()
	e, err := leader.New(driver, leader.WithLeaseTime(30*time.Second), leader.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		b.Fatal(err)
	}
	return e
}

func benchLease(b *testing.B, client *clientv3.Client) clientv3.LeaseID {
	b.Helper()
	granted, err := client.Grant(b.Context(), 3600)
	if err != nil {
		b.Fatal(err)
	}
	return granted.ID
}

// take is an acquisition by the raw client, for a value as large as the driver's.
func take(ctx context.Context, client *clientv3.Client, place string, id clientv3.LeaseID) (*clientv3.TxnResponse, error) {
	r := newRecord(backend.Request{Key: place, Token: rand.Text(), Owner: "node-1"})
	value, err := r.encode()
	if err != nil {
		return nil, err
	}
	return client.Txn(ctx).If(isFree(place)).Then(clientv3.OpPut(keyOf(place, id), value, clientv3.WithLease(id))).
		Else(clientv3.OpGet(place, clientv3.WithPrefix())).Commit()
}

func give(ctx context.Context, client *clientv3.Client, place string, id clientv3.LeaseID) error {
	answer, err := client.Delete(ctx, keyOf(place, id))
	if err == nil && answer.Deleted == 0 {
		err = errors.New("not released")
	}
	return err
}

func keyOf(place string, id clientv3.LeaseID) string { return place + strconv.FormatInt(int64(id), 16) }

// BenchmarkAcquireRelease compares the driver, and the engine above it, with the driver's own two requests sent by the
// raw client on a shared lease, and with the locks of etcd's own package on a shared session.
func BenchmarkAcquireRelease(b *testing.B) {
	client := benchClient(b, testserver.Etcd(b).Addr())
	driver := benchDriver(b, client)
	elector := benchElector(b, driver)
	id := benchLease(b, client)
	session, err := concurrency.NewSession(client)
	if err != nil {
		b.Fatal(err)
	}
	var c benchtest.Contest
	c.Add("raw", func(ctx context.Context) error {
		if _, err := take(ctx, client, "raw", id); err != nil {
			return err
		}
		return give(ctx, client, "raw", id)
	})
	c.Add("driver", func(ctx context.Context) error {
		req := backend.Request{Key: "driver", Token: rand.Text(), Owner: "node-1", TTL: 30 * time.Second}
		lease, err := driver.TryAcquire(ctx, req)
		if err != nil {
			return err
		}
		return lease.Release(ctx, 0)
	})
	c.Add("run", func(ctx context.Context) error {
		_, err := elector.RunIfLeader(ctx, "run", func(context.Context) error { return nil })
		return err
	})
	c.Add("mutex", func(ctx context.Context) error {
		m := concurrency.NewMutex(session, "mutex")
		if err := m.Lock(ctx); err != nil {
			return err
		}
		return m.Unlock(ctx)
	})
	c.Add("election", func(ctx context.Context) error {
		e := concurrency.NewElection(session, "election")
		if err := e.Campaign(ctx, "node-1"); err != nil {
			return err
		}
		return e.Resign(ctx)
	})
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "driver", "raw")
	benchtest.Ratio(b, medians, "run", "raw")
	benchtest.Ratio(b, medians, "run", "mutex")
	benchtest.Ratio(b, medians, "run", "election")
}

// BenchmarkHeld compares losing attempts with the driver's own request sent by the raw client.
func BenchmarkHeld(b *testing.B) {
	client := benchClient(b, testserver.Etcd(b).Addr())
	driver := benchDriver(b, client)
	elector := benchElector(b, driver)
	id := benchLease(b, client)
	for _, key := range []string{"driver", "run"} {
		win := backend.Request{Key: key, Token: rand.Text(), Owner: "node-1", TTL: time.Hour}
		if _, err := driver.TryAcquire(b.Context(), win); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := take(b.Context(), client, "raw", id); err != nil {
		b.Fatal(err)
	}
	var c benchtest.Contest
	c.Add("raw", func(ctx context.Context) error {
		answer, err := take(ctx, client, "raw", id)
		if err == nil && answer.Succeeded {
			err = errors.New("not refused")
		}
		return err
	})
	c.Add("driver", func(ctx context.Context) error {
		req := backend.Request{Key: "driver", Token: rand.Text(), Owner: "node-2", TTL: 30 * time.Second}
		if _, err := driver.TryAcquire(ctx, req); !errors.Is(err, backend.ErrHeld) {
			return errors.New("not refused")
		}
		return nil
	})
	c.Add("skip", func(ctx context.Context) error {
		r, err := elector.RunIfLeader(ctx, "run", func(context.Context) error { return nil }, leader.WithWaitTime(0))
		if err == nil && r.Outcome != leader.Skipped {
			err = errors.New("not skipped")
		}
		return err
	})
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "driver", "raw")
	benchtest.Ratio(b, medians, "skip", "raw")
}

// BenchmarkHandOff times a release up to the start of the waiter's action, and the same with the raw client: a write, a
// notification, and a write.
func BenchmarkHandOff(b *testing.B) {
	addr := testserver.Etcd(b).Addr()
	here, there := benchClient(b, addr), benchClient(b, addr)
	var c benchtest.Contest
	c.AddTimed("raw", rawHandOff(here, there, benchLease(b, here)))
	c.AddTimed("run", runHandOff(benchElector(b, benchDriver(b, here)), benchElector(b, benchDriver(b, there))))
	benchtest.Ratio(b, c.Run(b), "run", "raw")
}

// settle is how long a waiter gets until it waits.
const settle = 5 * time.Millisecond

func rawHandOff(here, there *clientv3.Client, id clientv3.LeaseID) func(ctx context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if _, err := take(ctx, here, "raw", id); err != nil {
			return 0, err
		}
		watch := there.Watch(ctx, "raw", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		<-watch
		time.Sleep(settle)
		began := time.Now()
		released := make(chan error, 1)
		go func() { released <- give(ctx, here, "raw", id) }()
		<-watch
		_, err := take(ctx, there, "raw", id)
		took := time.Since(began)
		return took, errors.Join(err, <-released, give(ctx, there, "raw", id))
	}
}

func runHandOff(here, there *leader.Single) func(ctx context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		lease, err := here.Acquire(ctx, "run")
		if err != nil {
			return 0, err
		}
		var led time.Time
		done := make(chan error, 1)
		go func() {
			_, err := there.RunIfLeader(ctx, "run", func(context.Context) error {
				led = time.Now()
				return nil
			}, leader.WithWaitTime(time.Minute))
			done <- err
		}()
		time.Sleep(settle)
		began := time.Now()
		if err := lease.Release(ctx); err != nil {
			return 0, err
		}
		err = <-done
		return led.Sub(began), err
	}
}
