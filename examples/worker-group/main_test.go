package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goleader/leader/examples/internal/exampletest"
)

// line is one line of the output about a slot.
type line struct {
	node  string
	slot  int
	fence uint64
}

// parse returns the lines of that form: of a node, a slot and a fence.
func parse(t *testing.T, out, form string) []line {
	t.Helper()
	var lines []line
	for _, m := range regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3}  `+form+`$`).FindAllStringSubmatch(out, -1) {
		slot, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		fence, err := strconv.ParseUint(m[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line{m[1], slot, fence})
	}
	return lines
}

func TestWorkerGroup_WhenAWorkerIsKilled_AnotherTakesItsSlot(t *testing.T) {
	out := exampletest.Run(t, exampletest.Build(t))
	t.Logf("\n%s", out)

	dead := regexp.MustCompile(`show +kills (\w), which has slot 0`).FindStringSubmatch(out)
	if dead == nil {
		t.Fatal("nobody was killed")
	}
	seen := parse(t, out, `show +sees (\w) in slot (\d) of 2, fence (\d+)`)
	if len(seen) != 4 {
		t.Fatalf("%d lines of who works, want two before the kill and two after it: %v", len(seen), seen)
	}
	before, after := seen[:2], seen[2:]
	if before[0].node != dead[1] || after[0].node == dead[1] || after[0].fence <= before[0].fence {
		t.Errorf("slot 0 went from %v to %v, want from %s to another with a greater fence", before[0], after[0], dead[1])
	}
	if before[1] != after[1] {
		t.Errorf("slot 1 went from %v to %v, want that it stays", before[1], after[1])
	}
	for _, both := range [][]line{before, after} {
		if both[0].slot != 0 || both[1].slot != 1 || both[0].node == both[1].node {
			t.Errorf("%v work, want two workers in slots 0 and 1", both)
		}
	}

	// What the workers say of themselves is the same, as far as they had the time to say it.
	told := out[:strings.LastIndex(out, "show")]
	worked := parse(t, told, `(\w) +works in slot (\d), fence (\d+)`)
	for _, l := range worked {
		if !slices.Contains(seen, l) {
			t.Errorf("%v worked, but was not seen: %v", l, seen)
		}
	}
	if len(worked) == 0 {
		t.Error("no worker said that it works")
	}
}
