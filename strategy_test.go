package leader_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader"
)

var noon = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)

// enrolled is a candidate that registered so many seconds after noon.
func enrolled(node string, seconds int) leader.Candidate {
	return leader.Candidate{Node: node, Registered: noon.Add(time.Duration(seconds) * time.Second)}
}

// byTable scores candidates as the table says, and others with 0.
func byTable(scores map[string]float64) leader.Scorer {
	return leader.ScorerFunc(func(c leader.Candidate, _ []leader.Candidate, _ time.Time) float64 { return scores[c.Node] })
}

// strategies are all strategies, on scores that are as bad as scores get.
func strategies() map[string]leader.Strategy {
	return map[string]leader.Strategy{
		"FIFO":      leader.FIFO(),
		"Random":    leader.Random(7),
		"HighestID": leader.HighestID(),
		"Scored": leader.Scored(byTable(map[string]float64{
			"a": math.NaN(), "b": math.Inf(1), "c": math.Inf(-1), "d": math.Inf(1), "e": -3,
		})),
		"Scored by sums": leader.Scored(leader.ScorerFunc(func(c leader.Candidate, all []leader.Candidate, now time.Time) float64 {
			var sum float64
			for _, other := range all {
				sum += 1 / float64(1+other.Idle(now))
			}
			return sum * float64(c.Successes%3)
		})),
	}
}

func TestStrategy_Elect_RanksAndExplains(t *testing.T) {
	nan := math.NaN()
	rows := map[string]struct {
		strategy   leader.Strategy
		candidates []leader.Candidate
		want       []string
		eliminated map[string]string
	}{
		"FIFO: earliest registration, then node id": {
			leader.FIFO(),
			[]leader.Candidate{enrolled("c", 0), enrolled("b", 2), enrolled("d", 0), enrolled("a", 2)},
			[]string{"c", "d", "a", "b"},
			map[string]string{
				"d": `registered at the same instant as "c", whose node id comes first`,
				"a": `registered 2s after "c"`,
				"b": `registered 2s after "c"`,
			},
		},
		"FIFO: an unknown registration is the earliest": {
			leader.FIFO(),
			[]leader.Candidate{enrolled("a", 0), {Node: "b"}},
			[]string{"b", "a"},
			map[string]string{"a": `registered after "b"`},
		},
		"Scored: highest, then registration, then node id": {
			leader.Scored(byTable(map[string]float64{"a": 1, "b": 2, "c": 2, "d": 2, "e": -1})),
			[]leader.Candidate{enrolled("a", 0), enrolled("e", 0), enrolled("b", 2), enrolled("d", 1), enrolled("c", 1)},
			[]string{"c", "d", "b", "a", "e"},
			map[string]string{
				"d": `same score of 2, but registered at the same instant as "c", whose node id comes first`,
				"b": `same score of 2, but registered 1s after "c"`,
				"a": `score 1 below 2 of "c"`,
				"e": `score -1 below 2 of "c"`,
			},
		},
		"Scored: close scores are told apart": {
			leader.Scored(byTable(map[string]float64{"a": 0.1, "b": 0.1 + 1e-9})),
			[]leader.Candidate{enrolled("a", 0), enrolled("b", 1)},
			[]string{"b", "a"},
			map[string]string{"a": `score 0.1 below 0.100000001 of "b"`},
		},
		"Scored: infinite and not a number": {
			leader.Scored(byTable(map[string]float64{"a": nan, "b": math.Inf(-1), "c": -5, "d": math.Inf(1), "e": math.Inf(1)})),
			[]leader.Candidate{enrolled("a", 0), enrolled("b", 1), enrolled("c", 2), enrolled("d", 4), enrolled("e", 3)},
			[]string{"e", "d", "c", "b", "a"},
			map[string]string{
				"d": `same score of +Inf, but registered 1s after "e"`,
				"c": `score -5 below +Inf of "e"`,
				"b": `score -Inf below +Inf of "e"`,
				"a": `its score is not a number`,
			},
		},
		"Scored: negative zero is zero": {
			leader.Scored(byTable(map[string]float64{"a": math.Copysign(0, -1), "b": 0})),
			[]leader.Candidate{enrolled("a", 0), enrolled("b", 1)},
			[]string{"a", "b"},
			map[string]string{"b": `same score of 0, but registered 1s after "a"`},
		},
		"Scored: nothing but NaN is FIFO": {
			leader.Scored(byTable(map[string]float64{"a": nan, "b": nan})),
			[]leader.Candidate{enrolled("a", 1), enrolled("b", 0)},
			[]string{"b", "a"},
			map[string]string{"a": `same score of NaN, but registered 1s after "b"`},
		},
		"Scored: no scorer is FIFO": {
			leader.Scored(nil),
			[]leader.Candidate{enrolled("a", 1), enrolled("b", 0)},
			[]string{"b", "a"},
			map[string]string{"a": `same score of NaN, but registered 1s after "b"`},
		},
		"HighestID: byte-wise": {
			leader.HighestID(),
			[]leader.Candidate{enrolled("node-9", 0), enrolled("node-10", 1), enrolled("é", 2), enrolled("Z", 3)},
			[]string{"é", "node-9", "node-10", "Z"},
			map[string]string{
				"node-9": `node id below "é"`, "node-10": `node id below "é"`, "Z": `node id below "é"`,
			},
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			e := row.strategy.Elect(row.candidates, noon)
			if got := nodesOf(e.Candidates); !slices.Equal(got, row.want) {
				t.Errorf("ranked %q, want %q", got, row.want)
			}
			if e.Winner != row.want[0] {
				t.Errorf("winner %q, want %q", e.Winner, row.want[0])
			}
			if !maps.Equal(e.Eliminated, row.eliminated) {
				t.Errorf("eliminated %q, want %q", e.Eliminated, row.eliminated)
			}
		})
	}
}

func TestStrategy_Elect_OfNobodyIsTheZeroElection(t *testing.T) {
	for name, s := range strategies() {
		for _, nobody := range [][]leader.Candidate{nil, {}, {{}, {Successes: 3}}} {
			if e := s.Elect(nobody, noon); !reflect.DeepEqual(e, leader.Election{}) {
				t.Errorf("%s: %d candidates without node id: %+v", name, len(nobody), e)
			}
		}
	}
}

func TestStrategy_Elect_KeepsTheNewestOfOneNode(t *testing.T) {
	old, renewed := enrolled("a", 0), enrolled("a", 5)
	less, more := enrolled("b", 1), enrolled("b", 1)
	more.Failures = 1
	for name, s := range strategies() {
		e := s.Elect([]leader.Candidate{renewed, more, old, less}, noon)
		if len(e.Candidates) != 2 || len(e.Eliminated) != 1 {
			t.Fatalf("%s: %+v", name, e)
		}
		for _, c := range e.Candidates {
			if !c.Registered.Equal(map[string]time.Time{"a": renewed.Registered, "b": more.Registered}[c.Node]) {
				t.Errorf("%s: %s registered at %v", name, c.Node, c.Registered)
			}
			if c.Node == "b" && c.Failures != 1 {
				t.Errorf("%s: of two registered at once the one that has done less stayed", name)
			}
		}
	}
}

// TestStrategy_Elect_AnswersTheSameOnEveryNode draws candidates, bad ones too, and asks in many orders.
func TestStrategy_Elect_AnswersTheSameOnEveryNode(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		candidates := draw(r)
		before := slices.Clone(candidates)
		for name, s := range strategies() {
			want := text(s.Elect(candidates, noon))
			for range 5 {
				shuffled := slices.Clone(candidates)
				r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
				if got := text(s.Elect(shuffled, noon)); got != want {
					t.Fatalf("%s of %+v: another order gives\n%s\nand not\n%s", name, candidates, got, want)
				}
			}
			wantComplete(t, name, s.Elect(candidates, noon))
		}
		if !reflect.DeepEqual(candidates, before) {
			t.Fatalf("modified: %+v, was %+v", candidates, before)
		}
	}
}

// draw makes up to seven candidates out of few values, so that many are equal.
func draw(r *rand.Rand) []leader.Candidate {
	candidates := make([]leader.Candidate, r.IntN(8))
	for i := range candidates {
		c := &candidates[i]
		if r.IntN(10) > 0 {
			*c = enrolled(string(rune('a'+r.IntN(6))), r.IntN(3))
		}
		c.Successes = r.Int64N(4)
		if r.IntN(3) == 0 {
			c.LastFinish = noon.Add(time.Duration(r.IntN(3)) * time.Minute)
			c.Metadata = map[string]string{"zone": strconv.Itoa(r.IntN(3))}
		}
	}
	return candidates
}

// wantComplete demands that the winner is the best candidate and that all others are told why they are not.
func wantComplete(t *testing.T, name string, e leader.Election) {
	t.Helper()
	if len(e.Candidates) == 0 {
		if e.Winner != "" {
			t.Errorf("%s: %q wins among nobody", name, e.Winner)
		}
		return
	}
	if e.Winner != e.Candidates[0].Node || len(e.Eliminated) != len(e.Candidates)-1 {
		t.Errorf("%s: %+v", name, e)
	}
	for _, c := range e.Candidates[1:] {
		if e.Eliminated[c.Node] == "" {
			t.Errorf("%s: %q does not know why it lost: %+v", name, c.Node, e)
		}
	}
	if _, scored := e.Scores[e.Winner]; scored && len(e.Scores) != len(e.Candidates) {
		t.Errorf("%s: %d scores of %d candidates", name, len(e.Scores), len(e.Candidates))
	}
}

func TestScored_Elect_ReportsEveryScoreAsItWasGiven(t *testing.T) {
	scores := map[string]float64{"a": 1.5, "b": math.Inf(-1), "c": math.NaN()}
	e := leader.Scored(byTable(scores)).Elect([]leader.Candidate{enrolled("c", 0), enrolled("b", 0), enrolled("a", 0)}, noon)
	if fmt.Sprint(e.Scores) != fmt.Sprint(scores) {
		t.Errorf("scores %v, want %v", e.Scores, scores)
	}
}

func TestScored_Elect_IsNotDisturbedByAScorerThatSorts(t *testing.T) {
	sorts := leader.ScorerFunc(func(c leader.Candidate, all []leader.Candidate, _ time.Time) float64 {
		slices.SortFunc(all, func(a, b leader.Candidate) int { return b.Registered.Compare(a.Registered) })
		return float64(c.Registered.Sub(noon))
	})
	e := leader.Scored(sorts).Elect([]leader.Candidate{enrolled("a", 2), enrolled("b", 1), enrolled("c", 3)}, noon)
	if got := nodesOf(e.Candidates); !slices.Equal(got, []string{"c", "a", "b"}) || len(e.Scores) != 3 {
		t.Errorf("ranked %q with scores %v", got, e.Scores)
	}
}

func TestRandom_Elect_ReachesEveryCandidateAboutEquallyOften(t *testing.T) {
	const nodes, seeds = 5, 5000
	candidates := make([]leader.Candidate, nodes)
	for i := range candidates {
		candidates[i] = enrolled(fmt.Sprintf("node-%d", i), i)
	}
	wins := map[string]int{}
	for seed := range uint64(seeds) {
		wins[leader.Random(seed).Elect(candidates, noon).Winner]++
	}
	for _, c := range candidates {
		// The seeds are fixed, so this is no matter of luck; of a fair draw seven standard deviations are 198.
		if n := wins[c.Node]; n < 800 || n > 1200 {
			t.Errorf("%s won %d of %d times: %v", c.Node, n, seeds, wins)
		}
	}
}

func TestRandom_Elect_KeepsTheWinnerWhenOthersComeAndGo(t *testing.T) {
	for seed := range uint64(200) {
		s := leader.Random(seed)
		few := []leader.Candidate{enrolled("a", 0), enrolled("b", 0), enrolled("c", 0)}
		before := s.Elect(few, noon)
		after := s.Elect(append(few, enrolled("d", 0)), noon)
		if after.Winner != "d" && after.Winner != before.Winner {
			t.Errorf("seed %d: %q came, and %q won instead of %q", seed, "d", after.Winner, before.Winner)
		}
		others := slices.DeleteFunc(nodesOf(after.Candidates), func(node string) bool { return node == "d" })
		if !slices.Equal(others, nodesOf(before.Candidates)) {
			t.Errorf("seed %d: ranked %q, then %q", seed, nodesOf(before.Candidates), others)
		}
	}
}

// TestRandom_Elect_NeverChangesItsMind pins the algorithm: nodes of different releases must agree.
func TestRandom_Elect_NeverChangesItsMind(t *testing.T) {
	candidates := []leader.Candidate{enrolled("a", 0), enrolled("b", 0), enrolled("c", 0), enrolled("d", 0)}
	var got []string
	for seed := range uint64(16) {
		got = append(got, leader.Random(seed).Elect(candidates, noon).Winner)
	}
	if want := strings.Split("bcdcdaadcbbdcdbc", ""); !slices.Equal(got, want) {
		t.Errorf("winners %q, want %q", got, want)
	}
}

func TestCandidate_SuccessRate(t *testing.T) {
	rows := []struct {
		successes, failures int64
		want                float64
	}{
		{0, 0, 0},
		{3, 1, 0.75},
		{0, 5, 0},
		{2, 0, 1},
		{-1, 4, 0},
		{4, -1, 1},
		{-2, -2, 0},
		{math.MaxInt64, math.MaxInt64, 0.5},
	}
	for _, row := range rows {
		c := leader.Candidate{Successes: row.successes, Failures: row.failures}
		if got := c.SuccessRate(); got != row.want {
			t.Errorf("%d successes, %d failures: %v, want %v", row.successes, row.failures, got, row.want)
		}
	}
}

func TestCandidate_Idle(t *testing.T) {
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	rows := map[string]struct {
		c    leader.Candidate
		want time.Duration
	}{
		"nothing is known":            {leader.Candidate{}, 0},
		"never ran":                   {leader.Candidate{Registered: at(-10)}, 10 * time.Second},
		"ran":                         {leader.Candidate{Registered: at(-10), LastStart: at(-9), LastFinish: at(-4)}, 4 * time.Second},
		"runs, or died in a run":      {leader.Candidate{Registered: at(-10), LastStart: at(-2), LastFinish: at(-4)}, 2 * time.Second},
		"its first run has not ended": {leader.Candidate{Registered: at(-10), LastStart: at(-3)}, 3 * time.Second},
		"enrolled again":              {leader.Candidate{Registered: at(-1), LastFinish: at(-5)}, 5 * time.Second},
		"finishes in the future":      {leader.Candidate{Registered: at(-10), LastFinish: at(5)}, 0},
		"registers in the future":     {leader.Candidate{Registered: at(5)}, 0},
	}
	for name, row := range rows {
		if got := row.c.Idle(noon); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

func nodesOf(candidates []leader.Candidate) []string {
	nodes := make([]string, len(candidates))
	for i, c := range candidates {
		nodes[i] = c.Node
	}
	return nodes
}

// text shows all of an election; unlike reflect.DeepEqual it takes NaN for equal to itself.
func text(e leader.Election) string { return fmt.Sprintf("%+v", e) }

func ExampleScored() {
	// The scorer reads a fact that the nodes publish, in percent.
	free := leader.ScorerFunc(func(c leader.Candidate, _ []leader.Candidate, _ time.Time) float64 {
		var percent float64
		if _, err := fmt.Sscan(c.Metadata["free"], &percent); err != nil {
			return math.NaN()
		}
		return percent
	})
	e := leader.Scored(free).Elect([]leader.Candidate{
		{Node: "node-a", Metadata: map[string]string{"free": "20"}},
		{Node: "node-b", Metadata: map[string]string{"free": "75"}},
		{Node: "node-c"},
	}, time.Now())
	fmt.Println(e.Winner)
	for _, c := range e.Candidates[1:] {
		fmt.Println(c.Node, "-", e.Eliminated[c.Node])
	}
	// Output:
	// node-b
	// node-a - score 20 below 75 of "node-b"
	// node-c - its score is not a number
}

func ExampleFIFO() {
	start := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	e := leader.FIFO().Elect([]leader.Candidate{
		{Node: "node-a", Registered: start.Add(time.Minute)},
		{Node: "node-b", Registered: start},
	}, start.Add(time.Hour))
	fmt.Println(e.Winner)
	fmt.Println(e.Eliminated["node-a"])
	// Output:
	// node-b
	// registered 1m0s after "node-b"
}
