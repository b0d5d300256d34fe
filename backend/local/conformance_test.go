package local_test

import (
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/local"
)

func conformance() backendtest.Config {
	return backendtest.Config{
		Fidelity: backendtest.Real,
		TTL:      200 * time.Millisecond,
		Open: func(_ testing.TB, n int) []backend.Driver {
			b := local.New()
			drivers := make([]backend.Driver, n)
			for i := range drivers {
				drivers[i] = b
			}
			return drivers
		},
	}
}

func TestBackend_Conformance(t *testing.T) { backendtest.Run(t, conformance()) }

func BenchmarkConformance(b *testing.B) { backendtest.Bench(b, conformance()) }
