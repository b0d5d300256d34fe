package proptest

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/goleader/leader"
	"github.com/goleader/leader/scorer"
)

var epoch = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)

// instants are unknown, within the minutes around the epoch, or far away.
func instants() *rapid.Generator[time.Time] {
	return rapid.OneOf(
		rapid.Just(time.Time{}),
		rapid.Map(rapid.IntRange(-5, 5), func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Minute) }),
		rapid.Map(rapid.Int64(), func(n int64) time.Time { return time.Unix(n/1000, 0).UTC() }),
	)
}

// counts may be negative and as large as they get.
func counts() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64}))
}

func candidates() *rapid.Generator[[]leader.Candidate] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) leader.Candidate {
		return leader.Candidate{
			// Few node ids, so that some are given twice.
			Node:       rapid.OneOf(rapid.StringMatching(`[a-d]`), rapid.String()).Draw(t, "node"),
			Registered: instants().Draw(t, "registered"),
			LastStart:  instants().Draw(t, "last start"),
			LastFinish: instants().Draw(t, "last finish"),
			LastOK:     instants().Draw(t, "last ok"),
			Successes:  counts().Draw(t, "successes"),
			Failures:   counts().Draw(t, "failures"),
			Metadata:   rapid.MapOfN(rapid.StringMatching(`[a-b]`), rapid.StringMatching(`[0-9]`), 0, 2).Draw(t, "metadata"),
		}
	}), 0, 8)
}

// numbers are floats of every kind, NaN and infinities often.
func numbers() *rapid.Generator[float64] {
	special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), math.MaxFloat64, 5e-324}
	return rapid.OneOf(rapid.Float64(), rapid.SampledFrom(special))
}

// opaque is a scorer that gives every node a number of its own.
func opaque(t *rapid.T, all []leader.Candidate) leader.Scorer {
	scores := make(map[string]float64)
	for _, c := range all {
		scores[c.Node] = numbers().Draw(t, "score of "+c.Node)
	}
	return leader.ScorerFunc(func(c leader.Candidate, _ []leader.Candidate, _ time.Time) float64 { return scores[c.Node] })
}

func scorers(t *rapid.T, all []leader.Candidate) map[string]leader.Scorer {
	var parts []scorer.Part
	for _, s := range []leader.Scorer{scorer.SuccessRate(), scorer.IdleTime(), opaque(t, all), nil} {
		parts = append(parts, scorer.Part{Weight: numbers().Draw(t, "weight"), Scorer: s})
	}
	return map[string]leader.Scorer{
		"SuccessRate":   scorer.SuccessRate(),
		"IdleTime":      scorer.IdleTime(),
		"RecentSuccess": scorer.RecentSuccess(),
		"Weighted":      scorer.Weighted(parts...),
	}
}

func strategies(t *rapid.T, all []leader.Candidate) map[string]leader.Strategy {
	list := map[string]leader.Strategy{
		"FIFO":      leader.FIFO(),
		"HighestID": leader.HighestID(),
		"Random":    leader.Random(rapid.Uint64().Draw(t, "seed")),
		"Scored":    leader.Scored(opaque(t, all)),
	}
	for name, s := range scorers(t, all) {
		list[name] = leader.Scored(s)
	}
	return list
}

func TestStrategies_ElectTheSameInEveryOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := candidates().Draw(t, "candidates")
		now := instants().Draw(t, "now")
		shuffled := rapid.Permutation(all).Draw(t, "in another order")
		for name, s := range strategies(t, all) {
			a, b := fmt.Sprintf("%+v", s.Elect(all, now)), fmt.Sprintf("%+v", s.Elect(shuffled, now))
			if a != b {
				t.Fatalf("%s elects\n%s\nor\n%s", name, a, b)
			}
		}
	})
}

func TestStrategies_ElectOneOfTheCandidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := candidates().Draw(t, "candidates")
		before := slices.Clone(all)
		nodes := make(map[string]bool)
		for _, c := range all {
			if c.Node != "" {
				nodes[c.Node] = true
			}
		}
		for name, s := range strategies(t, all) {
			e := s.Elect(all, epoch)
			if len(nodes) > 0 && !nodes[e.Winner] || len(nodes) == 0 && e.Winner != "" {
				t.Fatalf("%s elects %q of %v", name, e.Winner, nodes)
			}
			if len(e.Candidates) != len(nodes) || len(nodes) > 0 && len(e.Eliminated) != len(nodes)-1 {
				t.Fatalf("%s: %d candidates, %d eliminated, of %v", name, len(e.Candidates), len(e.Eliminated), nodes)
			}
		}
		if fmt.Sprint(all) != fmt.Sprint(before) {
			t.Fatalf("modified: %v, was %v", all, before)
		}
	})
}

func TestScored_NobodyWhoseScoreIsNoNumberBeatsOneWhoseScoreIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := candidates().Draw(t, "candidates")
		e := leader.Scored(opaque(t, all)).Elect(all, epoch)
		for node, score := range e.Scores {
			switch won := e.Scores[e.Winner]; {
			case math.IsNaN(score):
			case math.IsNaN(won):
				t.Fatalf("%q wins with NaN, %q has %v", e.Winner, node, score)
			case score > won:
				t.Fatalf("%q wins with %v, %q has %v", e.Winner, won, node, score)
			}
		}
	})
}

func TestScored_IsFIFOWhereNoScoreIsANumber(t *testing.T) {
	nan := leader.ScorerFunc(func(leader.Candidate, []leader.Candidate, time.Time) float64 { return math.NaN() })
	rapid.Check(t, func(t *rapid.T) {
		all := candidates().Draw(t, "candidates")
		got, want := leader.Scored(nan).Elect(all, epoch), leader.FIFO().Elect(all, epoch)
		if fmt.Sprint(got.Candidates) != fmt.Sprint(want.Candidates) {
			t.Fatalf("ranked %v, want %v", got.Candidates, want.Candidates)
		}
	})
}

func TestRandom_IsRoughlyFair(t *testing.T) {
	const draws = 4000
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SliceOfNDistinct(rapid.StringN(1, 20, -1), 2, 6, rapid.ID[string]).Draw(t, "nodes")
		all := make([]leader.Candidate, len(nodes))
		for i, node := range nodes {
			all[i].Node = node
		}
		first := rapid.Uint64().Draw(t, "first seed")
		wins := make(map[string]int)
		for i := range uint64(draws) {
			wins[leader.Random(first+i).Elect(all, epoch).Winner]++
		}
		p := 1 / float64(len(nodes))
		// Eight standard deviations: a fair draw misses that once in 10^15 times.
		slack := 8 * math.Sqrt(draws*p*(1-p))
		for _, node := range nodes {
			if math.Abs(float64(wins[node])-draws*p) > slack {
				t.Fatalf("%q wins %d of %d times, of %d nodes", node, wins[node], draws, len(nodes))
			}
		}
	})
}

func TestRandom_ChangesNothingAmongOthersWhenOneLeaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := candidates().Draw(t, "candidates")
		s := leader.Random(rapid.Uint64().Draw(t, "seed"))
		before := s.Elect(all, epoch)
		if len(before.Candidates) < 2 {
			t.Skip("nobody to leave")
		}
		leaver := rapid.SampledFrom(before.Candidates).Draw(t, "leaves").Node
		left := func(c leader.Candidate) bool { return c.Node == leaver }
		after := s.Elect(slices.DeleteFunc(slices.Clone(all), left), epoch)
		if want := slices.DeleteFunc(before.Candidates, left); fmt.Sprint(after.Candidates) != fmt.Sprint(want) {
			t.Fatalf("ranked %v, want %v", after.Candidates, want)
		}
	})
}

func TestScorers_KeepToTheirScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := candidates().Draw(t, "candidates")
		now := instants().Draw(t, "now")
		strangers := candidates().Draw(t, "strangers")
		for name, s := range scorers(t, all) {
			for _, c := range slices.Concat(all, strangers) {
				if score := s.Score(c, all, now); !(score >= 0 && score <= 100) {
					t.Fatalf("%s of %+v is %v", name, c, score)
				}
			}
		}
	})
}
