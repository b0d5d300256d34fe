package contest

import (
	"math"
	"slices"
	"time"
)

// Spread sums up what the rounds gave: the median, and the 10th and the 90th percentile.
type Spread struct{ Value, Low, High float64 }

// SpreadOf returns the Spread of the rounds' values, NaN if there are none.
func SpreadOf(rounds []float64) Spread {
	return Spread{Value: Median(rounds), Low: quantile(rounds, 0.1), High: quantile(rounds, 0.9)}
}

// Single is the Spread of a figure that was taken once.
func Single(value float64) Spread { return Spread{value, value, value} }

// Ratio compares two contestants: the Spread of above's median divided by below's within each round.
func (t Times) Ratio(above, below string) Spread {
	a, b := t[above], t[below]
	ratios := make([]float64, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = a[i] / b[i]
	}
	return SpreadOf(ratios)
}

// In returns the Spread of a contestant's median in the given unit.
func (t Times) In(unit time.Duration, name string) Spread {
	s := SpreadOf(t[name])
	u := float64(unit)
	return Spread{s.Value / u, s.Low / u, s.High / u}
}

// Median returns the middle of values, NaN if there are none.
func Median(values []float64) float64 { return quantile(values, 0.5) }

// quantile interpolates between the two nearest ranks.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}
