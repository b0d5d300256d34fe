package command

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goleader/leader"
	"github.com/goleader/leader/scorer"
)

// candidate is a node that may be elected.
type candidate struct {
	Node       string            `json:"node"`
	Preferred  bool              `json:"preferred"`
	WhyNot     string            `json:"why_not,omitempty"`
	Score      *float64          `json:"score,omitempty"`
	Registered *time.Time        `json:"registered,omitempty"`
	LastStart  *time.Time        `json:"last_start,omitempty"`
	LastFinish *time.Time        `json:"last_finish,omitempty"`
	Successes  int64             `json:"successes"`
	Failures   int64             `json:"failures"`
	Metadata   map[string]string `json:"metadata,omitempty"`
}

// strategies are the ones that have no arguments.
var strategies = map[string]func() leader.Strategy{
	"fifo":           leader.FIFO,
	"highest-id":     leader.HighestID,
	"success-rate":   func() leader.Strategy { return leader.Scored(scorer.SuccessRate()) },
	"idle-time":      func() leader.Strategy { return leader.Scored(scorer.IdleTime()) },
	"recent-success": func() leader.Strategy { return leader.Scored(scorer.RecentSuccess()) },
}

// strategyOf is the strategy of a name, of which random:SEED has a number.
func strategyOf(name string) (leader.Strategy, error) {
	if build, ok := strategies[name]; ok {
		return build(), nil
	}
	if seed, ok := strings.CutPrefix(name, "random:"); ok {
		if n, err := strconv.ParseUint(seed, 10, 64); err == nil {
			return leader.Random(n), nil
		}
	}
	return nil, usage(fmt.Errorf("there is no strategy %q: use %s or random:SEED", name,
		strings.Join(sortedKeys(strategies), ", ")))
}

func (t *tool) candidatesCommand() *cobra.Command {
	var strategy string
	c := &cobra.Command{
		Use:               "candidates NAME",
		Short:             "List the candidates of a strategic election, best first, and why the others are not preferred",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: t.completeName,
		RunE: func(c *cobra.Command, args []string) error {
			chosen, err := strategyOf(strategy)
			if err != nil {
				return err
			}
			ctx, cancel := t.within(c.Context())
			defer cancel()
			s, end, err := t.open(ctx)
			if err != nil {
				return err
			}
			defer end()
			elector, err := leader.NewStrategic(unadvised{s.Driver}, chosen, t.options()...)
			if err != nil {
				return err
			}
			election, err := elector.Election(ctx, args[0])
			if err != nil {
				return err
			}
			return t.showCandidates(candidatesOf(&election))
		},
	}
	c.Flags().StringVar(&strategy, "strategy", "fifo",
		"`name` of the electors' strategy: "+strings.Join(sortedKeys(strategies), ", ")+" or random:SEED")
	_ = c.RegisterFlagCompletionFunc("strategy",
		cobra.FixedCompletions(sortedKeys(strategies), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return c
}

func candidatesOf(e *leader.Election) []candidate {
	list := make([]candidate, 0, len(e.Candidates))
	for i := range e.Candidates {
		c := &e.Candidates[i]
		v := candidate{
			Node: c.Node, Preferred: c.Node == e.Winner, WhyNot: e.Eliminated[c.Node], Registered: optional(c.Registered),
			LastStart: optional(c.LastStart), LastFinish: optional(c.LastFinish), Successes: c.Successes,
			Failures: c.Failures, Metadata: c.Metadata,
		}
		if score, ok := e.Scores[c.Node]; ok {
			v.Score = &score
		}
		list = append(list, v)
	}
	return list
}

func (t *tool) showCandidates(list []candidate) error {
	if t.json {
		return t.printJSON(list)
	}
	rows := [][]string{{"NODE", "SCORE", "REGISTERED", "RUNS", "FAILED", "LAST START", "WHY NOT"}}
	for i := range list {
		v := &list[i]
		score, registered, start, why := "", "", "", v.WhyNot
		if v.Score != nil {
			score = strconv.FormatFloat(*v.Score, 'f', 1, 64)
		}
		if v.Registered != nil {
			registered = clock(*v.Registered)
		}
		if v.LastStart != nil {
			start = clock(*v.LastStart)
		}
		if v.Preferred {
			why = "(preferred)"
		}
		rows = append(rows, []string{
			v.Node, score, registered, strconv.FormatInt(v.Successes+v.Failures, 10), strconv.FormatInt(v.Failures, 10),
			start, why,
		})
	}
	return t.table(rows)
}

// sortedKeys are the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
