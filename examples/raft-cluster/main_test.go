package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goleader/leader/examples/internal/exampletest"
)

// leads is the line of who leads by which fence.
var leads = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3}  ([abc]) +leads, fence (\d+)$`)

func TestRaftCluster_WhenTheLeaderIsKilled_AnotherGoesOn(t *testing.T) {
	out := exampletest.Run(t, exampletest.Build(t))
	t.Logf("\n%s", out)

	killed := regexp.MustCompile(`show +kills ([abc]), which leads`).FindStringSubmatchIndex(out)
	if killed == nil {
		t.Fatal("nobody was killed")
	}
	dead := out[killed[2]:killed[3]]
	before, after := leads.FindAllStringSubmatch(out[:killed[0]], -1), leads.FindAllStringSubmatch(out[killed[0]:], -1)
	if len(before) == 0 || len(after) == 0 {
		t.Fatalf("%v led before the kill and %v after it", before, after)
	}
	last, next := before[len(before)-1], after[0]
	if last[1] != dead || next[1] == dead {
		t.Errorf("%s led and then %s, want %s and then another", last[1], next[1], dead)
	}
	if number(t, next[2]) <= number(t, last[2]) {
		t.Errorf("fence %s after %s", next[2], last[2])
	}
	back := strings.Index(out, "show  starts "+dead+" again")
	if back < 0 || !regexp.MustCompile(`(?m)`+dead+` +has started$`).MatchString(out[back:]) ||
		!strings.Contains(out[back:], "works") {
		t.Errorf("%s did not come back, or nobody works then", dead)
	}
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
