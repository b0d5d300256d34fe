package scorer_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/scorer"
)

var noon = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)

// at is an instant so many minutes after noon, which is when scores are asked for.
func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

func constant(score float64) leader.Scorer {
	return leader.ScorerFunc(func(leader.Candidate, []leader.Candidate, time.Time) float64 { return score })
}

// wantScores demands that s scores each candidate among all of them as told.
func wantScores(t *testing.T, s leader.Scorer, all []leader.Candidate, want ...float64) {
	t.Helper()
	for i, c := range all {
		if got := s.Score(c, all, noon); math.Abs(got-want[i]) > 1e-9 || math.IsNaN(got) {
			t.Errorf("candidate %d scores %v, want %v", i, got, want[i])
		}
	}
}

func TestSuccessRate_IsThePercentageOfRuns(t *testing.T) {
	wantScores(t, scorer.SuccessRate(), []leader.Candidate{
		{},
		{Successes: 3, Failures: 1},
		{Failures: 7},
		{Successes: 2},
		{Successes: -5, Failures: 1},
		{Successes: 5, Failures: math.MinInt64},
		{Successes: math.MaxInt64, Failures: math.MaxInt64},
	}, 0, 75, 0, 100, 0, 100, 50)
}

func TestIdleTime_IsAShareOfTheLongest(t *testing.T) {
	wantScores(t, scorer.IdleTime(), []leader.Candidate{
		{Registered: at(-40)},
		{Registered: at(-90), LastStart: at(-12), LastFinish: at(-10)},
		{Registered: at(-90), LastStart: at(-20), LastFinish: at(-30)},
		{},
		{Registered: at(5)},
		{LastFinish: at(5)},
	}, 100, 25, 50, 0, 0, 0)
}

func TestIdleTime_IsZeroIfNobodyIsIdle(t *testing.T) {
	wantScores(t, scorer.IdleTime(), []leader.Candidate{{Registered: noon}, {LastFinish: at(1)}, {}}, 0, 0, 0)
}

func TestIdleTime_KeepsToTheScaleForAStranger(t *testing.T) {
	all := []leader.Candidate{{Registered: at(-1)}}
	if got := scorer.IdleTime().Score(leader.Candidate{Registered: at(-9)}, all, noon); got != 100 {
		t.Errorf("a candidate that is not among all scores %v, want 100", got)
	}
}

func TestRecentSuccess_RanksBySuccessesAlone(t *testing.T) {
	wantScores(t, scorer.RecentSuccess(), []leader.Candidate{
		{LastOK: at(-10)},
		{LastOK: at(-20)},
		{LastOK: at(-30), LastFinish: at(-1), Failures: 9},
		{LastFinish: at(-1), Failures: 3},
		{},
	}, 100, 50.5, 1, 0, 0)
}

func TestRecentSuccess_IsFullForTheOnlyOne(t *testing.T) {
	wantScores(t, scorer.RecentSuccess(), []leader.Candidate{{LastOK: at(-10)}, {}, {LastOK: at(-10)}}, 100, 0, 100)
}

func TestRecentSuccess_TakesTheFutureForNow(t *testing.T) {
	wantScores(t, scorer.RecentSuccess(), []leader.Candidate{{LastOK: at(60)}, {LastOK: noon}, {LastOK: at(-1)}}, 100, 100, 1)
}

func TestWeighted_IsTheWeightedMean(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	rows := map[string]struct {
		parts []scorer.Part
		want  float64
	}{
		"two":                      {[]scorer.Part{{3, constant(100)}, {1, constant(20)}}, 80},
		"no part":                  {nil, 0},
		"weights of nothing":       {[]scorer.Part{{0, constant(100)}, {-1, constant(100)}, {nan, constant(100)}}, 0},
		"bad weights are left out": {[]scorer.Part{{-5, constant(100)}, {nan, constant(100)}, {2, constant(30)}}, 30},
		"no scorer":                {[]scorer.Part{{5, nil}, {1, constant(40)}}, 40},
		"infinite weight":          {[]scorer.Part{{inf, constant(10)}, {1, constant(90)}}, 10},
		"infinite weights":         {[]scorer.Part{{inf, constant(10)}, {inf, constant(90)}}, 50},
		"largest weights":          {[]scorer.Part{{math.MaxFloat64, constant(10)}, {math.MaxFloat64, constant(90)}}, 50},
		"smallest weights":         {[]scorer.Part{{5e-324, constant(10)}, {5e-324, constant(90)}}, 50},
		"scores outside":           {[]scorer.Part{{1, constant(inf)}, {1, constant(-inf)}, {2, constant(1e9)}}, 75},
		"no score":                 {[]scorer.Part{{1, constant(nan)}, {1, constant(60)}}, 30},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			wantScores(t, scorer.Weighted(row.parts...), []leader.Candidate{{}}, row.want)
		})
	}
}

func TestWeighted_KeepsItsPartsToItself(t *testing.T) {
	parts := []scorer.Part{{Weight: 1, Scorer: constant(10)}, {Weight: 1, Scorer: constant(30)}}
	s := scorer.Weighted(parts...)
	parts[0] = scorer.Part{Weight: 100, Scorer: constant(100)}
	wantScores(t, s, []leader.Candidate{{}}, 20)
}

func ExampleWeighted() {
	now := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	strategy := leader.Scored(scorer.Weighted(
		scorer.Part{Weight: 3, Scorer: scorer.SuccessRate()},
		scorer.Part{Weight: 1, Scorer: scorer.IdleTime()},
	))
	e := strategy.Elect([]leader.Candidate{
		{Node: "node-a", Successes: 9, Failures: 1, LastFinish: now.Add(-time.Minute)},
		{Node: "node-b", Successes: 8, Failures: 2, LastFinish: now.Add(-time.Hour)},
	}, now)
	fmt.Printf("%s: %.1f, node-a: %.1f\n", e.Winner, e.Scores["node-b"], e.Scores["node-a"])
	// Output:
	// node-b: 85.0, node-a: 67.9
}
