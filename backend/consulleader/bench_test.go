package consulleader

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/benchtest"
	"github.com/goleader/leader/internal/testserver"
)

const (
	benchTTL = 30 * time.Second
	// bound is the deadline of raw requests, as everybody who uses a network gives them one. It costs the transport some
	// microseconds.
	bound = 2 * time.Second
)

func benchClient(b *testing.B) *api.Client {
	b.Helper()
	tr, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		b.Fatal("the default transport is another")
	}
	tr = tr.Clone()
	tr.MaxIdleConnsPerHost = 16
	b.Cleanup(tr.CloseIdleConnections)
	client, err := api.NewClient(&api.Config{Address: testserver.Consul(b).Addr(), Transport: tr})
	if err != nil {
		b.Fatal(err)
	}
	return client
}

func benchDriver(b *testing.B, client *api.Client) *Backend {
	b.Helper()
	driver := New(client, nil)
	b.Cleanup(func() { _ = driver.Close() })
	return driver
}

func benchSession(b *testing.B, client *api.Client) string {
	b.Helper()
	id, _, err := client.Session().CreateNoChecks(&api.SessionEntry{TTL: "24h", Behavior: "delete", LockDelay: 1}, nil)
	if err != nil {
		b.Fatal(err)
	}
	return id
}

func benchElector(b *testing.B, driver backend.Driver) *leader.Single {
	b.Helper()
	e, err := leader.New(driver, leader.WithLeaseTime(benchTTL), leader.WithNodeID("node-1"))
	if err != nil {
		b.Fatal(err)
	}
	return e
}

func nothing(context.Context) error { return nil }

// BenchmarkRun compares an elected run, and one term of the driver, with the driver's own two requests sent by the raw
// client on a shared session, and with the client's own lock on a shared session.
func BenchmarkRun(b *testing.B) {
	client := benchClient(b)
	driver := benchDriver(b, client)
	elector := benchElector(b, benchDriver(b, client))
	session := benchSession(b, client)
	value, err := newRecord(backend.Request{Token: rand.Text(), Owner: "node-1", TTL: benchTTL}).encode()
	if err != nil {
		b.Fatal(err)
	}
	lock, err := client.LockOpts(&api.LockOptions{Key: "lock", Session: benchSession(b, client)})
	if err != nil {
		b.Fatal(err)
	}
	var c benchtest.Contest
	c.Add("raw", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, bound)
		defer cancel()
		ok, answer, _, err := client.KV().Txn(api.KVTxnOps{
			{Verb: api.KVCheckNotExists, Key: "leader/raw"},
			{Verb: api.KVLock, Key: "leader/raw", Value: value, Session: session},
		}, queryOptions(ctx))
		if err != nil || !ok {
			return errors.Join(err, errors.New("not locked"))
		}
		pair := &api.KVPair{Key: "leader/raw", ModifyIndex: answer.Results[0].ModifyIndex}
		_, _, err = client.KV().DeleteCAS(pair, writeOptions(ctx))
		return err
	})
	c.Add("driver", func(ctx context.Context) error {
		req := backend.Request{Key: "driver", Token: rand.Text(), Owner: "node-1", TTL: benchTTL}
		lease, err := driver.TryAcquire(ctx, req)
		if err != nil {
			return err
		}
		return lease.Release(ctx, 0)
	})
	c.Add("run", func(ctx context.Context) error {
		r, err := elector.RunIfLeader(ctx, "run", nothing)
		if err == nil && r.Outcome != leader.Elected {
			err = errors.New("not elected")
		}
		return err
	})
	c.Add("lock", func(context.Context) error {
		if _, err := lock.Lock(nil); err != nil {
			return err
		}
		return lock.Unlock()
	})
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "driver", "raw")
	benchtest.Ratio(b, medians, "run", "raw")
	benchtest.Ratio(b, medians, "run", "lock")
}

// BenchmarkSkip compares a run that is skipped, and a losing attempt, with the one read that they take, sent by the raw
// client.
func BenchmarkSkip(b *testing.B) {
	client := benchClient(b)
	driver := benchDriver(b, client)
	win := backend.Request{Key: "held", Token: rand.Text(), Owner: "node-1", TTL: maxTTL}
	if _, err := driver.TryAcquire(b.Context(), win); err != nil {
		b.Fatal(err)
	}
	other := benchDriver(b, client)
	elector := benchElector(b, other)
	var c benchtest.Contest
	c.Add("raw", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, bound)
		defer cancel()
		_, _, err := client.KV().Get("leader/held", queryOptions(ctx))
		return err
	})
	c.Add("driver", func(ctx context.Context) error {
		req := backend.Request{Key: "held", Token: rand.Text(), Owner: "node-2", TTL: benchTTL}
		if _, err := other.TryAcquire(ctx, req); !errors.Is(err, backend.ErrHeld) {
			return errors.New("not refused")
		}
		return nil
	})
	c.Add("skip", func(ctx context.Context) error {
		r, err := elector.RunIfLeader(ctx, "held", nothing)
		if err == nil && r.Outcome == leader.Elected {
			err = errors.New("elected")
		}
		return err
	})
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "driver", "raw")
	benchtest.Ratio(b, medians, "skip", "raw")
}

// BenchmarkHandOff compares the time from a release to the waiter's lead with what it takes at least: the deletion, a
// blocking query that tells of it, and the next lock, by the raw client.
func BenchmarkHandOff(b *testing.B) {
	client := benchClient(b)
	holder := benchElector(b, benchDriver(b, client))
	waiter := benchElector(b, benchDriver(b, client))
	session := benchSession(b, client)
	var raws, handOffs []time.Duration
	for b.Loop() {
		raws = append(raws, rawHandOff(b, client, session))
		handOffs = append(handOffs, handOff(b, holder, waiter))
	}
	slices.Sort(raws)
	slices.Sort(handOffs)
	raw, got := raws[len(raws)/2], handOffs[len(handOffs)/2]
	b.ReportMetric(float64(raw.Nanoseconds())/1e3, "raw-µs")
	b.ReportMetric(float64(got.Nanoseconds())/1e3, "handoff-µs")
	b.ReportMetric(float64(got)/float64(raw), "handoff/raw")
}

// settle is how long a waiter gets to begin to wait.
const settle = 20 * time.Millisecond

func handOff(b *testing.B, holder, waiter *leader.Single) time.Duration {
	b.Helper()
	lease, err := holder.Acquire(b.Context(), "handoff", leader.WithWaitTime(time.Minute))
	if err != nil {
		b.Fatal(err)
	}
	led := make(chan time.Time, 1)
	failed := make(chan error, 1)
	go func() {
		_, err := waiter.RunIfLeader(b.Context(), "handoff", func(context.Context) error {
			led <- time.Now()
			return nil
		}, leader.WithWaitTime(time.Minute))
		failed <- err
	}()
	time.Sleep(settle)
	began := time.Now()
	if err := lease.Release(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := <-failed; err != nil {
		b.Fatal(err)
	}
	return (<-led).Sub(began)
}

func rawHandOff(b *testing.B, client *api.Client, session string) time.Duration {
	b.Helper()
	lock := func() *api.KVPair {
		ok, answer, _, err := client.KV().Txn(api.KVTxnOps{
			{Verb: api.KVLock, Key: "raw", Value: []byte("x"), Session: session},
		}, queryOptions(b.Context()))
		if err != nil || !ok {
			b.Fatal(ok, err)
		}
		return answer.Results[0]
	}
	held := lock()
	told := make(chan error, 1)
	go func() {
		options := queryOptions(b.Context())
		options.WaitIndex = held.ModifyIndex
		_, _, err := client.KV().Get("raw", options)
		told <- err
	}()
	time.Sleep(settle)
	began := time.Now()
	if _, _, err := client.KV().DeleteCAS(held, nil); err != nil {
		b.Fatal(err)
	}
	if err := <-told; err != nil {
		b.Fatal(err)
	}
	held = lock()
	took := time.Since(began)
	if _, _, err := client.KV().DeleteCAS(held, nil); err != nil {
		b.Fatal(err)
	}
	return took
}
