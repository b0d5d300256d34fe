package redisleader

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/benchtest"
	"github.com/goleader/leader/internal/testserver"
)

const compareAndDelete = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

func benchClient(b *testing.B) *redis.Client {
	b.Helper()
	client := redis.NewClient(&redis.Options{
		Addr:                  testserver.Redis(b, testserver.RedisConfig("appendonly no")).Addr(),
		ContextTimeoutEnabled: true,
	})
	b.Cleanup(func() { _ = client.Close() })
	return client
}

// BenchmarkAcquireRelease compares the driver with its own two scripts sent by the raw client, and with the plain
// pair of SET NX PX and compare-and-delete, which has no fence.
func BenchmarkAcquireRelease(b *testing.B) {
	client := benchClient(b)
	driver := New(client, nil)
	remove := redis.NewScript(compareAndDelete)
	var c benchtest.Contest
	c.Add("setnx", func(ctx context.Context) error {
		token := rand.Text()
		args := redis.SetArgs{Mode: "NX", TTL: 30 * time.Second}
		if err := client.SetArgs(ctx, "raw", token, args).Err(); err != nil {
			return err
		}
		return remove.Run(ctx, client, []string{"raw"}, token).Err()
	})
	c.Add("scripts", func(ctx context.Context) error {
		token, keys := rand.Text(), []string{"leader:{scripts}"}
		err := acquireScript.Run(ctx, client, keys, token, int64(30_000_000), "node-1", "").Err()
		if err != nil {
			return err
		}
		return releaseScript.Run(ctx, client, keys, token, int64(0), "publish").Err()
	})
	c.Add("driver", func(ctx context.Context) error {
		req := backend.Request{Key: "driver", Token: rand.Text(), Owner: "node-1", TTL: 30 * time.Second}
		lease, err := driver.TryAcquire(ctx, req)
		if err != nil {
			return err
		}
		return lease.Release(ctx, 0)
	})
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "driver", "setnx")
	benchtest.Ratio(b, medians, "scripts", "setnx")
	benchtest.Ratio(b, medians, "driver", "scripts")
}

// BenchmarkHeld compares a losing attempt with its script sent by the raw client, and with a losing SET NX PX.
func BenchmarkHeld(b *testing.B) {
	client := benchClient(b)
	driver := New(client, nil)
	win := backend.Request{Key: "held", Token: rand.Text(), Owner: "node-1", TTL: time.Hour}
	if _, err := driver.TryAcquire(b.Context(), win); err != nil {
		b.Fatal(err)
	}
	args := redis.SetArgs{Mode: "NX", TTL: time.Hour}
	if err := client.SetArgs(b.Context(), "raw", "x", args).Err(); err != nil {
		b.Fatal(err)
	}
	var c benchtest.Contest
	c.Add("setnx", func(ctx context.Context) error {
		if err := client.SetArgs(ctx, "raw", rand.Text(), args).Err(); !errors.Is(err, redis.Nil) {
			return errors.New("not refused")
		}
		return nil
	})
	c.Add("script", func(ctx context.Context) error {
		keys := []string{driver.recordKey("held")}
		return acquireScript.Run(ctx, client, keys, rand.Text(), int64(30_000_000), "node-2", "").Err()
	})
	c.Add("driver", func(ctx context.Context) error {
		req := backend.Request{Key: "held", Token: rand.Text(), Owner: "node-2", TTL: 30 * time.Second}
		if _, err := driver.TryAcquire(ctx, req); !errors.Is(err, backend.ErrHeld) {
			return errors.New("not refused")
		}
		return nil
	})
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "driver", "script")
	benchtest.Ratio(b, medians, "driver", "setnx")
}

// BenchmarkHandOff times a release, its message, and the waiter's acquisition.
func BenchmarkHandOff(b *testing.B) {
	client := benchClient(b)
	driver := New(client, nil)
	defer func() { _ = driver.Close() }()
	acquire := func() backend.Lease {
		req := backend.Request{Key: "a", Token: rand.Text(), Owner: "node-1", TTL: time.Hour}
		lease, err := driver.TryAcquire(b.Context(), req)
		if err != nil {
			b.Fatal(err)
		}
		return lease
	}
	lease := acquire()
	var times []time.Duration
	for b.Loop() {
		h, err := driver.Inspect(b.Context(), "a")
		if err != nil {
			b.Fatal(err)
		}
		woken := make(chan error, 1)
		go func() { woken <- driver.AwaitRelease(b.Context(), "a", h.Seen) }()
		time.Sleep(time.Millisecond) // so that it mostly waits
		began := time.Now()
		if err := lease.Release(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
		if err := <-woken; err != nil {
			b.Fatal(err)
		}
		lease = acquire()
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "p50-µs")
}
