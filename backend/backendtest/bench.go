package backendtest

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

// Bench measures the calls that package leader makes most: one term, an attempt that finds the key held, a renewal.
// It needs Open and Fidelity of c. Each measurement gets a store of its own.
func Bench(b *testing.B, c Config) {
	b.Helper()
	c = c.withDefaults(b)
	b.Run("AcquireRelease", func(b *testing.B) { benchAcquireRelease(b, c) })
	b.Run("Skip", func(b *testing.B) { benchSkip(b, c) })
	b.Run("Renew", func(b *testing.B) { benchRenew(b, c) })
}

func benchAcquireRelease(b *testing.B, c Config) {
	d, req := benchOpen(b, c)
	for b.Loop() {
		req.Token = rand.Text()
		lease, err := d.TryAcquire(b.Context(), req)
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Release(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
	}
}

func benchSkip(b *testing.B, c Config) {
	d, req := benchOpen(b, c)
	if _, err := d.TryAcquire(b.Context(), req); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		req.Token = rand.Text()
		if _, err := d.TryAcquire(b.Context(), req); !errors.Is(err, backend.ErrHeld) {
			b.Fatalf("TryAcquire: %v, want ErrHeld", orSuccess(err))
		}
	}
}

func benchRenew(b *testing.B, c Config) {
	d, req := benchOpen(b, c)
	lease, err := d.TryAcquire(b.Context(), req)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := lease.Renew(b.Context(), req.TTL); err != nil {
			b.Fatal(err)
		}
	}
}

// benchOpen returns a client of a new store and a request whose lease outlives a measurement.
func benchOpen(b *testing.B, c Config) (backend.Driver, backend.Request) {
	b.Helper()
	d := c.Open(b, 1)[0]
	ttl := 10 * time.Minute
	if high := limitsOf(d).MaxTTL; high > 0 {
		ttl = min(ttl, high)
	}
	return d, backend.Request{Key: "bench", Token: rand.Text(), Owner: "bench", TTL: ttl}
}
