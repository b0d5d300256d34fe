package main

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
	"github.com/goleader/leader/examples/internal/exampletest"
)

// line is one line of the output.
type line struct {
	node, what string
	fence      uint64
}

var lineForm = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3}  (\d+-[abc]) +(.*?) +fence (\d+)$`)

// parse returns the lines of an output that say something of what.
func parse(t *testing.T, out, what string) []line {
	t.Helper()
	var lines []line
	for _, m := range lineForm.FindAllStringSubmatch(out, -1) {
		fence, err := strconv.ParseUint(m[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(m[2], what) {
			lines = append(lines, line{m[1], m[2], fence})
		}
	}
	return lines
}

// checkGrowing fails unless there are n lines and each has a greater fence than the one before it.
func checkGrowing(t *testing.T, lines []line, n int) {
	t.Helper()
	if len(lines) != n {
		t.Errorf("%d lines of leaders, want %d: %v", len(lines), n, lines)
	}
	var last uint64
	for _, l := range lines {
		if l.fence <= last {
			t.Errorf("fence %d comes after %d", l.fence, last)
		}
		last = l.fence
	}
}

func nodesOf(lines []line) map[string]bool {
	nodes := make(map[string]bool)
	for _, l := range lines {
		nodes[l.node] = true
	}
	return nodes
}

func TestQuickstart_ShowsLeadersSkipsAHandOverAndGrowingFences(t *testing.T) {
	out := exampletest.Run(t, exampletest.Build(t), "-file", filepath.Join(t.TempDir(), "q.db"))
	t.Logf("\n%s", out)

	leads, skips := parse(t, out, "runs the job"), parse(t, out, "is skipped")
	if len(leads)+len(skips) != 3**rounds {
		t.Errorf("%d runs and %d skips in %d rounds of three nodes", len(leads), len(skips), *rounds)
	}
	checkGrowing(t, leads, len(leads))
	if len(leads) == 0 || len(skips) == 0 || !strings.Contains(skips[0].what, leads[0].node+" leads") {
		t.Errorf("leaders %v and skips %v: want both, and the first leader named by the first skip", leads, skips)
	}

	terms, ends := parse(t, out, "leads the service"), parse(t, out, "hands over")
	checkGrowing(t, terms, 3)
	checkGrowing(t, ends, 3)
	if len(nodesOf(terms)) != 3 {
		t.Errorf("the service was led by %v, want each of three nodes once", nodesOf(terms))
	}
}

func TestQuickstart_TwoProcesses_TakeTurns(t *testing.T) {
	program, file := exampletest.Build(t), filepath.Join(t.TempDir(), "q.db")
	var outs [2]string
	var all sync.WaitGroup
	for i := range outs {
		all.Go(func() { outs[i] = exampletest.Run(t, program, "-file", file) })
	}
	all.Wait()
	fences := make(map[uint64]string)
	for _, out := range outs {
		for _, l := range append(parse(t, out, "runs the job"), parse(t, out, "leads the service")...) {
			if other, twice := fences[l.fence]; twice {
				t.Errorf("both %s and %s had fence %d", other, l.node, l.fence)
			}
			fences[l.fence] = l.node
		}
		checkGrowing(t, parse(t, out, "leads the service"), 3)
	}
}

func TestQuickstart_WhileAnotherProcessLeads_IsSkipped(t *testing.T) {
	program, file := exampletest.Build(t), filepath.Join(t.TempDir(), "q.db")
	store, err := sqliteleader.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	elector, err := leader.New(store, leader.WithNodeID("another"))
	if err != nil {
		t.Fatal(err)
	}
	lease, err := elector.Acquire(t.Context(), "quickstart-job")
	if err != nil {
		t.Fatal(err)
	}
	out := exampletest.Run(t, program, "-file", file, "-rounds", "1")
	if err := lease.Release(t.Context()); err != nil {
		t.Fatalf("the other process did not keep its lease: %v", err)
	}
	skips := parse(t, out, "is skipped, because another leads")
	if len(skips) != 3 || len(parse(t, out, "runs the job")) != 0 {
		t.Errorf("want three nodes skipped because of the other process:\n%s", out)
	}
	for _, l := range skips {
		if l.fence != lease.Info().Fence {
			t.Errorf("fence %d, want the other's, %d", l.fence, lease.Info().Fence)
		}
	}
}
