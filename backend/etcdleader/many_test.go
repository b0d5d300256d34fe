package etcdleader_test

import (
	"context"
	"flag"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/goleader/leader"
)

var long60 = flag.Bool("long", false, "also what takes a minute and a whole processor")

// TestBackend_ManyLeases_AreAllKept renews 2,000 leases for a minute with -long, else 200 for as long as a lease.
func TestBackend_ManyLeases_AreAllKept(t *testing.T) {
	names, lease, lasts := 200, 5*time.Second, 6*time.Second
	if *long60 {
		names, lease, lasts = 2000, 30*time.Second, time.Minute
	}
	b, _ := start(t)
	e := elector(t, b, "a", lease)
	before := runtime.NumGoroutine()
	var held []*leader.Lease
	for i := range names {
		l, err := e.Acquire(t.Context(), strconv.Itoa(i))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l)
	}
	time.Sleep(lasts)
	t.Logf("%d goroutines for %d leases", runtime.NumGoroutine()-before, names)
	for _, l := range held {
		if err := l.Err(); err != nil {
			t.Errorf("%s: %v: %v", l.Info().Name, err, context.Cause(l.Context()))
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
