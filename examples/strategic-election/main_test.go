package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/examples/internal/exampletest"
)

// event is one line of the output.
type event struct {
	at   time.Time
	node string
	what string
}

var eventForm = regexp.MustCompile(`(?m)^(\d\d:\d\d:\d\d\.\d{3})  (small|medium|large) +(.*)$`)

func parse(t *testing.T, out string) []event {
	t.Helper()
	var events []event
	for _, m := range eventForm.FindAllStringSubmatch(out, -1) {
		at, err := time.Parse("15:04:05.000", m[1])
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, event{at, m[2], m[3]})
	}
	return events
}

// find returns the place of the first event of a node from a place on that begins like what.
func find(t *testing.T, events []event, from int, node, what string) int {
	t.Helper()
	for i := from; i < len(events); i++ {
		if events[i].node == node && strings.HasPrefix(events[i].what, what) {
			return i
		}
	}
	t.Fatalf("%s %s: not found after event %d", node, what, from)
	return 0
}

func TestStrategicElection_TheBestLeads_LeavesAndIsHandedTheServiceBack(t *testing.T) {
	out := exampletest.Run(t, exampletest.Build(t))
	t.Logf("\n%s", out)
	events := parse(t, out)

	i := 0
	for _, step := range []struct{ node, what string }{
		{"large", "enrolls, with 256 GiB"},
		{"large", "leads"},
		{"medium", "knows that large is preferred, with a score of 256"},
		{"medium", `knows why medium is not: score 64 below 256 of "large"`},
		{"large", "leaves"},
		{"medium", "leads"},
		{"large", "enrolls, with 256 GiB"},
		{"medium", "hands over to a better one"},
		{"large", "leads"},
		{"medium", "knows why medium is not: sits out after it resigned"},
		{"large", "leaves"},
	} {
		i = find(t, events, i, step.node, step.what) + 1
	}

	var last uint64
	var leaders []string
	for _, e := range events {
		number, leads := strings.CutPrefix(e.what, "leads, fence ")
		if !leads {
			continue
		}
		fence, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if fence <= last {
			t.Errorf("%s leads with fence %d after %d", e.node, fence, last)
		}
		last = fence
		leaders = append(leaders, e.node)
	}
	if got, want := strings.Join(leaders, " "), "large medium large"; got != want {
		t.Errorf("the leaders were %s, want %s", got, want)
	}
}

func TestStrategicElection_TheSecondOne_KeepsTheServiceForTheTimeToHold(t *testing.T) {
	events := parse(t, exampletest.Run(t, exampletest.Build(t)))
	left := find(t, events, 0, "large", "leaves")
	back := find(t, events, left, "large", "enrolls")
	over := find(t, events, back, "medium", "hands over")
	next := find(t, events, over, "large", "leads")
	// The instants are of the output, to the millisecond. At midnight the clock of the output begins anew.
	if kept := events[over].at.Sub(events[back].at); kept >= 0 && kept < betterHeld/2 {
		t.Errorf("medium handed over %v after large had enrolled, want about %v", kept, betterHeld)
	}
	t.Logf("handed over after %v; nobody led for %v",
		events[over].at.Sub(events[back].at), events[next].at.Sub(events[over].at))
}
