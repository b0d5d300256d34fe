package hazelcastleader

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/logger"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/benchtest"
	"github.com/goleader/leader/internal/testserver"
)

// benchClient is a client of a server, which ends with the benchmark.
func benchClient(b *testing.B, server *testserver.Server) *hazelcast.Client {
	b.Helper()
	var c hazelcast.Config
	c.Logger.Level = logger.OffLevel
	c.Cluster.Network.Addresses = []string{server.Addr()}
	Configure(&c)
	if err := c.AddFlakeIDGenerator("raw", 1, 0); err != nil {
		b.Fatal(err)
	}
	client, err := hazelcast.StartNewClientWithConfig(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Shutdown(context.WithoutCancel(b.Context())) })
	return client
}

// raw sends the requests of the driver by the client alone, for one key.
type raw struct {
	leases *hazelcast.Map
	clock  *hazelcast.FlakeIDGenerator
	value  record
	last   any // the value that the entry has
}

func newRaw(b *testing.B, client *hazelcast.Client) *raw {
	b.Helper()
	leases, err := client.GetMap(b.Context(), "raw")
	if err != nil {
		b.Fatal(err)
	}
	clock, err := client.GetFlakeIDGenerator(b.Context(), "raw")
	if err != nil {
		b.Fatal(err)
	}
	r := &raw{leases: leases, clock: clock, value: record{
		Fence: 1 << 40, Token: rand.Text(), Spent: rand.Text(), Owner: "node-1", Since: 1 << 40, Until: 1 << 40, Clock: 1,
	}}
	text, err := r.value.encode()
	if err == nil {
		err = leases.Set(b.Context(), "key", text)
	}
	if err != nil {
		b.Fatal(err)
	}
	r.last = text
	return r
}

// look reads the entry beside the clock.
func (r *raw) look(ctx context.Context) (any, error) {
	told := make(chan error, 1)
	go func() {
		_, err := r.clock.NewID(ctx)
		told <- err
	}()
	found, err := r.leases.Get(ctx, "key")
	return found, errors.Join(err, <-told)
}

// change replaces an entry by one of the same size.
func (r *raw) change(ctx context.Context, before any) (string, error) {
	text, err := r.value.encode()
	if err != nil {
		return "", err
	}
	changed, err := r.leases.ReplaceIfSame(ctx, "key", before, text)
	if err == nil && !changed {
		err = errors.New("not changed")
	}
	return text, err
}

// again is what a term of the driver sends for a key that nobody else has had.
func (r *raw) again(ctx context.Context) error {
	if _, err := r.clock.NewID(ctx); err != nil {
		return err
	}
	taken, err := r.change(ctx, r.last)
	if err == nil {
		r.last, err = r.change(ctx, taken)
	}
	return err
}

// term is what a term of the driver sends for a key that others may have had.
func (r *raw) term(ctx context.Context) error {
	found, err := r.look(ctx)
	if err != nil {
		return err
	}
	taken, err := r.change(ctx, found)
	if err == nil {
		r.last, err = r.change(ctx, taken)
	}
	return err
}

// bare makes a term without a fence, a clock, an end, or a memory of tokens.
func (r *raw) bare(ctx context.Context) error {
	token := rand.Text()
	if found, err := r.leases.PutIfAbsent(ctx, "bare", token); err != nil || found != nil {
		return errors.Join(err, errors.New("not put"))
	}
	_, err := r.leases.Remove(ctx, "bare")
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

func benchBackend(b *testing.B, client *hazelcast.Client) *Backend {
	b.Helper()
	d := New(client, nil)
	b.Cleanup(func() { _ = d.Close() })
	return d
}

// BenchmarkAcquireRelease compares the driver, and a whole run, with the requests of a term by the client alone, those for
// a key that others may have had and the same as here, and with the bare PutIfAbsent and Remove.
func BenchmarkAcquireRelease(b *testing.B) {
	client := benchClient(b, testserver.Hazelcast(b))
	r, d := newRaw(b, client), benchBackend(b, client)
	e := elector(b, d)
	var c benchtest.Contest
	c.Add("bare", r.bare)
	c.Add("requests", r.term)
	c.Add("same", r.again)
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
	benchtest.Ratio(b, medians, "driver", "requests")
	benchtest.Ratio(b, medians, "run", "requests")
	benchtest.Ratio(b, medians, "run", "bare")
	benchtest.Ratio(b, medians, "run", "same")
}

// BenchmarkHeld compares a losing attempt, and a run that is skipped, with their own requests by the client alone.
func BenchmarkHeld(b *testing.B) {
	client := benchClient(b, testserver.Hazelcast(b))
	r, d := newRaw(b, client), benchBackend(b, client)
	e := elector(b, d)
	win := backend.Request{Key: "held", Token: rand.Text(), Owner: "node-1", TTL: time.Hour}
	if _, err := d.TryAcquire(b.Context(), win); err != nil {
		b.Fatal(err)
	}
	var c benchtest.Contest
	c.Add("requests", func(ctx context.Context) error {
		_, err := r.look(ctx)
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
	benchtest.Ratio(b, medians, "driver", "requests")
	benchtest.Ratio(b, medians, "skip", "requests")
}

// BenchmarkGroup compares a term of a free slot, in half-taken groups of several sizes, with one of a single lease.
func BenchmarkGroup(b *testing.B) {
	d := benchBackend(b, benchClient(b, testserver.Hazelcast(b)))
	request := func(key string) backend.Request {
		return backend.Request{Key: key, Token: rand.Text(), Owner: "node-1", TTL: time.Hour}
	}
	for _, n := range []int{3, 10, 100} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			group := "group-" + rand.Text()
			for range n / 2 {
				if _, _, err := d.TryAcquireSlot(b.Context(), request(group), n); err != nil {
					b.Fatal(err)
				}
			}
			var c benchtest.Contest
			c.Add("single", func(ctx context.Context) error {
				lease, err := d.TryAcquire(ctx, request("single"))
				if err != nil {
					return err
				}
				return lease.Release(ctx, 0)
			})
			c.Add("group", func(ctx context.Context) error {
				lease, _, err := d.TryAcquireSlot(ctx, request(group), n)
				if err != nil {
					return err
				}
				return lease.Release(ctx, 0)
			})
			benchtest.Ratio(b, c.Run(b), "group", "single")
		})
	}
}

// BenchmarkHandOff times, from one client to another, a write, its event and a write; and from the call of Release to the
// start of the action of a run that waits.
func BenchmarkHandOff(b *testing.B) {
	server := testserver.Hazelcast(b)
	one, two := benchClient(b, server), benchClient(b, server)
	r := newRaw(b, one)
	other := newRaw(b, two)
	events := make(chan struct{}, 1)
	listener := hazelcast.MapListener{EntryUpdated: func(*hazelcast.EntryNotified) { events <- struct{}{} }}
	if _, err := other.leases.AddListenerWithKey(b.Context(), listener, "key", true); err != nil {
		b.Fatal(err)
	}
	from, to := elector(b, benchBackend(b, one)), elector(b, benchBackend(b, two))
	times := map[string][]time.Duration{}
	for b.Loop() {
		for name, way := range map[string]func() (time.Duration, error){
			"raw": func() (time.Duration, error) { return handOff(b.Context(), r, other, events) },
			"run": func() (time.Duration, error) { return handOver(b.Context(), from, to) },
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
	benchtest.Ratio(b, medians, "run", "raw")
}

// pause lets a waiter mostly wait before what it waits for happens.
const pause = 5 * time.Millisecond

// handOff changes an entry, and changes it again by another client that is told.
func handOff(ctx context.Context, from, to *raw, events <-chan struct{}) (time.Duration, error) {
	found, err := from.leases.Get(ctx, "key")
	if err != nil {
		return 0, err
	}
	time.Sleep(pause)
	began := time.Now()
	freed, err := from.change(ctx, found)
	if err != nil {
		return 0, err
	}
	<-events
	if _, err := to.change(ctx, freed); err != nil {
		return 0, err
	}
	took := time.Since(began)
	<-events
	return took, nil
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
	time.Sleep(2 * pause)
	began := time.Now()
	if err := l.Release(ctx); err != nil {
		return 0, err
	}
	if err := <-failed; err != nil {
		return 0, err
	}
	return (<-ran).Sub(began), nil
}
