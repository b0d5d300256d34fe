package scorer

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/goleader/leader"
)

// Part is a scorer and its weight in [Weighted].
type Part struct {
	// Weight counts in relation to those of the other parts. Below zero and NaN are taken for 0, which leaves the part
	// out; an infinite weight for the largest finite one.
	Weight float64
	// Scorer should score from 0 to 100. What is outside is moved to the nearer end, NaN is taken for 0. Without a scorer
	// the part is left out.
	Scorer leader.Scorer
}

// Weighted scores by the mean of several scorers, weighted:
//
//	Σ weight · score / Σ weight
//
// Weights need not add up to anything. Without a part that has a weight, all score 0.
func Weighted(parts ...Part) leader.Scorer {
	var w weighted
	for _, p := range parts {
		p.Weight = min(p.Weight, math.MaxFloat64)
		if p.Scorer != nil && p.Weight > 0 {
			w.parts = append(w.parts, p)
		}
	}
	if len(w.parts) == 0 {
		return w
	}
	// Weights of at most 1 cannot overflow their sum, nor be all too small to divide by.
	heaviest := slices.MaxFunc(w.parts, func(a, b Part) int { return cmp.Compare(a.Weight, b.Weight) }).Weight
	for i := range w.parts {
		w.parts[i].Weight /= heaviest
		w.sum += w.parts[i].Weight
	}
	return w
}

type weighted struct {
	parts []Part
	sum   float64
}

// Score implements [leader.Scorer].
func (w weighted) Score(c leader.Candidate, all []leader.Candidate, now time.Time) float64 {
	if w.sum == 0 {
		return 0
	}
	var score float64
	for _, p := range w.parts {
		// The conversion keeps compilers from fusing the two operations, which would round differently.
		score += float64(p.Weight * clamp(p.Scorer.Score(c, all, now)))
	}
	return clamp(score / w.sum)
}

// clamp moves a score into the scale.
func clamp(score float64) float64 {
	if math.IsNaN(score) {
		return 0
	}
	return min(max(score, 0), best)
}
