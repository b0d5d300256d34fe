// Package benchtest has what the benchmarks of the backends share.
package benchtest

import (
	"context"
	"slices"
	"testing"
	"time"
)

// block is how many times in a row a way is done.
const block = 10

// Contest times the same work done in several ways. The ways take turns, so that whatever else the machine does hits all
// of them. The zero value is ready.
type Contest struct {
	names []string
	ways  map[string]func(ctx context.Context) (time.Duration, error)
}

// Add adds a way, which is timed as a whole.
func (c *Contest) Add(name string, way func(ctx context.Context) error) {
	c.AddTimed(name, func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		err := way(ctx)
		return time.Since(began), err
	})
}

// AddTimed adds a way that tells how long that part of it took which counts.
func (c *Contest) AddTimed(name string, way func(ctx context.Context) (time.Duration, error)) {
	if c.ways == nil {
		c.ways = map[string]func(ctx context.Context) (time.Duration, error){}
	}
	c.names = append(c.names, name)
	c.ways[name] = way
}

// Run does each way once per iteration, in blocks of ten in both orders, reports the median of each in µs, and returns
// them.
func (c *Contest) Run(b *testing.B) map[string]time.Duration {
	b.Helper()
	times := map[string][]time.Duration{}
	order := slices.Clone(c.names)
	for n := 0; b.Loop(); n++ {
		if n%block != 0 {
			continue
		}
		for _, name := range order {
			for range block {
				took, err := c.ways[name](b.Context())
				if err != nil {
					b.Fatal(name, err)
				}
				times[name] = append(times[name], took)
			}
		}
		slices.Reverse(order)
	}
	medians := map[string]time.Duration{}
	for name, list := range times {
		slices.Sort(list)
		medians[name] = list[len(list)/2]
		b.ReportMetric(float64(medians[name].Nanoseconds())/1e3, name+"-µs")
	}
	return medians
}

// Ratio reports how many times as long one way took as another.
func Ratio(b *testing.B, medians map[string]time.Duration, above, below string) {
	b.Helper()
	b.ReportMetric(float64(medians[above])/float64(medians[below]), above+"/"+below)
}
