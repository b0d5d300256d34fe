package leader

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"
)

// Strategy picks a winner among the candidates. It must give the same answer for the same arguments on every node,
// whatever the order of the candidates, and must not modify them; now is the same instant for all of an election. It may
// be called concurrently.
//
// Those of this package leave candidates without a node id out, and let the newest stay of those with the same one.
type Strategy interface {
	Elect(candidates []Candidate, now time.Time) Election
}

// Scorer rates a candidate among all; higher is better, and NaN counts as lowest. It must give the same answer for the
// same arguments on every node, and may be called concurrently.
type Scorer interface {
	Score(c Candidate, all []Candidate, now time.Time) float64
}

// ScorerFunc is a function as a [Scorer].
type ScorerFunc func(c Candidate, all []Candidate, now time.Time) float64

// Score implements [Scorer]: it calls f.
func (f ScorerFunc) Score(c Candidate, all []Candidate, now time.Time) float64 { return f(c, all, now) }

// Election explains a choice.
type Election struct {
	Winner     string             // node id; empty when there is no candidate
	Candidates []Candidate        // best first
	Scores     map[string]float64 // by node id; nil unless the strategy scores
	Eliminated map[string]string  // by node id: why it did not win; without the winner
}

// FIFO elects the candidate that registered first, and of those that registered at the same instant the one whose node
// id comes first. An unknown registration is the earliest.
func FIFO() Strategy { return fifo{} }

// Random elects the candidate with the largest weight, a hash of the seed and of its node id alone. Another seed makes
// another choice, one seed the same on every node and at each election. A candidate that comes or goes changes the winner
// only if it is or was the winner itself. Over all seeds each candidate wins equally often.
//
// The hash is the finalizer of SplitMix64 over FNV-1a of the node id, combined with the mixed seed by exclusive or. For
// the algorithm see D. Thaler and C. V. Ravishankar, "Using name-based mappings to increase hit rates" (1998).
func Random(seed uint64) Strategy { return random{mix(seed)} }

// Scored elects the candidate with the highest score, and of those with the same score the one that FIFO would. NaN is
// lower than negative infinity, and one NaN the same as another; zero is the same as negative zero. If all scores are
// NaN, or s is nil, it therefore is FIFO.
func Scored(s Scorer) Strategy { return scored{s} }

// HighestID elects the candidate with the byte-wise largest node id: the Bully rule. For it see H. Garcia-Molina,
// "Elections in a distributed computing system" (1982).
func HighestID() Strategy { return highestID{} }

type (
	fifo      struct{}
	random    struct{ seed uint64 }
	scored    struct{ scorer Scorer }
	highestID struct{}
)

func (fifo) Elect(candidates []Candidate, _ time.Time) Election {
	return elect(ranked(candidates), registeredAfter)
}

func (r random) Elect(candidates []Candidate, _ time.Time) Election {
	list := ranked(candidates)
	slices.SortFunc(list, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(r.weight(b.Node), r.weight(a.Node)), cmp.Compare(a.Node, b.Node))
	})
	return elect(list, func(_, winner Candidate) string { return fmt.Sprintf("the draw fell on %q", winner.Node) })
}

// weight is what the candidate drew. For distinct hashes of node ids it maps seeds one to one, so that each candidate
// wins for some of them.
func (r random) weight(node string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(node))
	return mix(h.Sum64() ^ r.seed)
}

// mix is the output function of SplitMix64, a bijection: G. L. Steele, D. Lea and C. H. Flood, "Fast splittable
// pseudorandom number generators" (2014).
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (s scored) Elect(candidates []Candidate, now time.Time) Election {
	list := ranked(candidates)
	if len(list) == 0 {
		return Election{}
	}
	scores := s.scores(list, now)
	slices.SortStableFunc(list, func(a, b Candidate) int { return cmp.Compare(scores[b.Node], scores[a.Node]) })
	e := elect(list, func(loser, winner Candidate) string {
		return scoredBelow(loser, winner, scores[loser.Node], scores[winner.Node])
	})
	e.Scores = scores
	return e
}

// scores asks the scorer, which gets all candidates in the same order on every node: a sum of floats depends on it.
func (s scored) scores(list []Candidate, now time.Time) map[string]float64 {
	all := slices.Clone(list)
	scores := make(map[string]float64, len(list))
	for _, c := range list {
		scores[c.Node] = math.NaN()
		if s.scorer != nil {
			scores[c.Node] = s.scorer.Score(c, all, now)
		}
	}
	return scores
}

func (highestID) Elect(candidates []Candidate, _ time.Time) Election {
	list := ranked(candidates)
	slices.SortFunc(list, func(a, b Candidate) int { return cmp.Compare(b.Node, a.Node) })
	return elect(list, func(_, winner Candidate) string { return fmt.Sprintf("node id below %q", winner.Node) })
}

// elect makes the first of the list the winner; why says of each other one what it lacks.
func elect(list []Candidate, why func(loser, winner Candidate) string) Election {
	if len(list) == 0 {
		return Election{}
	}
	e := Election{Winner: list[0].Node, Candidates: list, Eliminated: make(map[string]string, len(list)-1)}
	for _, c := range list[1:] {
		e.Eliminated[c.Node] = why(c, list[0])
	}
	return e
}

func registeredAfter(loser, winner Candidate) string {
	if loser.Registered.Equal(winner.Registered) {
		return fmt.Sprintf("registered at the same instant as %q, whose node id comes first", winner.Node)
	}
	if winner.Registered.IsZero() {
		return fmt.Sprintf("registered after %q", winner.Node)
	}
	return fmt.Sprintf("registered %v after %q", loser.Registered.Sub(winner.Registered), winner.Node)
}

func scoredBelow(loser, winner Candidate, low, high float64) string {
	switch {
	case cmp.Compare(low, high) == 0:
		return fmt.Sprintf("same score of %.4g, but %s", low, registeredAfter(loser, winner))
	case math.IsNaN(low):
		return "its score is not a number"
	}
	from, to := fmt.Sprintf("%.4g", low), fmt.Sprintf("%.4g", high)
	if from == to {
		from, to = fmt.Sprint(low), fmt.Sprint(high)
	}
	return fmt.Sprintf("score %s below %s of %q", from, to, winner.Node)
}
