package contest

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{[]float64{7}, 0.9, 7},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{[]float64{11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 0.1, 2},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 0.9, 10},
		{[]float64{1, 2}, 0.1, 1.1},
		{[]float64{1, 2}, 1, 2},
	} {
		if got := quantile(c.values, c.q); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("quantile(%v, %v) = %v, want %v", c.values, c.q, got, c.want)
		}
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v, want NaN", got)
	}
}

func TestQuantile_LeavesItsArgumentAlone(t *testing.T) {
	values := []float64{3, 1, 2}
	Median(values)
	if !slices.Equal(values, []float64{3, 1, 2}) {
		t.Errorf("got %v", values)
	}
}

func TestTimes_Ratio_ComparesWithinEachRound(t *testing.T) {
	// The machine was ten times slower in the second round, for both.
	times := Times{"a": {20, 300, 20, 20}, "b": {10, 100, 10, 5}}
	got := times.Ratio("a", "b")
	if want := (Spread{2.5, 2, 3.7}); math.Abs(got.Value-want.Value) > 1e-9 || math.Abs(got.Low-want.Low) > 1e-9 ||
		math.Abs(got.High-want.High) > 1e-9 {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTimes_In_ConvertsToTheUnit(t *testing.T) {
	times := Times{"a": {float64(2 * time.Millisecond)}}
	if got := times.In(time.Millisecond, "a"); got != Single(2) {
		t.Errorf("got %v", got)
	}
}

func TestPlan_Run_AlternatesTheOrder(t *testing.T) {
	var log strings.Builder
	way := func(name string) Contestant {
		return Contestant{name, func(context.Context) (time.Duration, error) {
			log.WriteString(name)
			return time.Second, nil
		}}
	}
	times, err := Plan{Rounds: 2, Ops: 4}.Run(t.Context(), way("A"), way("B"), way("C"))
	if err != nil {
		t.Fatal(err)
	}
	const warmUp, round = "AABBCC", "AABBCCCCBBAA"
	if got := log.String(); got != warmUp+round+round {
		t.Errorf("got %s", got)
	}
	for name, list := range times {
		if !slices.Equal(list, []float64{1e9, 1e9}) {
			t.Errorf("%s: got %v", name, list)
		}
	}
}

func TestPlan_Turns_GiveAboutTheOperationsAskedFor(t *testing.T) {
	for ops, want := range map[int][2]int{
		0: {2, 1}, 1: {2, 1}, 2: {2, 1}, 10: {2, 5}, 50: {2, 25}, 100: {4, 25}, 300: {12, 25},
	} {
		if turns, size := (Plan{Ops: ops}).turns(); turns != want[0] || size != want[1] {
			t.Errorf("%d operations: got %d turns of %d, want %v", ops, turns, size, want)
		}
	}
}

func TestPlan_Run_EndsWithTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	calls := 0
	_, err := Plan{Rounds: 3, Ops: 2}.Run(t.Context(), Contestant{"A", func(context.Context) (time.Duration, error) {
		calls++
		return 0, broken
	}})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "A: ") {
		t.Errorf("got %v", err)
	}
	if calls != 1 {
		t.Errorf("%d calls, want 1", calls)
	}
}

func TestBatched_ReturnsTheTimeOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		took, err := Batched(10, func(context.Context) error {
			n++
			time.Sleep(time.Millisecond)
			return nil
		})(t.Context())
		if err != nil || n != 10 || took != time.Millisecond {
			t.Errorf("%d operations of %v, %v", n, took, err)
		}
	})
}

func TestTimed_ReturnsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took, err := Timed(func(context.Context) error {
			time.Sleep(time.Second)
			return nil
		})(t.Context())
		if err != nil || took != time.Second {
			t.Errorf("took %v, %v", took, err)
		}
	})
}
