package redisleader

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/benchtest"
)

// BenchmarkGroup compares a term of a free slot, in half-taken groups of several sizes, with one of a single lease.
func BenchmarkGroup(b *testing.B) {
	driver := New(benchClient(b), nil)
	request := func(key string) backend.Request {
		return backend.Request{Key: key, Token: rand.Text(), Owner: "node-1", TTL: time.Hour}
	}
	for _, n := range []int{3, 10, 100} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			group := "group-" + rand.Text()
			for range n / 2 {
				if _, _, err := driver.TryAcquireSlot(b.Context(), request(group), n); err != nil {
					b.Fatal(err)
				}
			}
			var c benchtest.Contest
			c.Add("single", func(ctx context.Context) error {
				lease, err := driver.TryAcquire(ctx, request("single"))
				if err != nil {
					return err
				}
				return lease.Release(ctx, 0)
			})
			c.Add("group", func(ctx context.Context) error {
				lease, _, err := driver.TryAcquireSlot(ctx, request(group), n)
				if err != nil {
					return err
				}
				return lease.Release(ctx, 0)
			})
			benchtest.Ratio(b, c.Run(b), "group", "single")
		})
	}
}

// BenchmarkRecords times what a heartbeat and an election cost with 1,000 candidates.
func BenchmarkRecords(b *testing.B) {
	const candidates = 1000
	driver := New(benchClient(b), nil)
	value := slices.Repeat([]byte("x"), 200)
	put := func(ctx context.Context, i int, version string) (string, error) {
		r := backend.Record{Key: fmt.Sprintf("job!candidate/node-%d", i), Version: version, Value: value, TTL: time.Hour}
		return driver.PutRecord(ctx, r)
	}
	var version string
	for i := range candidates {
		var err error
		if version, err = put(b.Context(), i, ""); err != nil {
			b.Fatal(err)
		}
	}
	var c benchtest.Contest
	c.Add("put", func(ctx context.Context) (err error) {
		version, err = put(ctx, candidates-1, version)
		return err
	})
	c.Add("get", func(ctx context.Context) error {
		list, _, err := driver.GetRecords(ctx, "job!candidate/")
		if err == nil && len(list) != candidates {
			err = fmt.Errorf("%d records", len(list))
		}
		return err
	})
	c.Run(b)
}
