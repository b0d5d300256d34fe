package main

import (
	"errors"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/goleader/leader/examples/internal/exampletest"
)

func TestFencedCounter_RefusesTheZombie(t *testing.T) {
	out := exampletest.Run(t, exampletest.Build(t))
	t.Logf("\n%s", out)
	// In this order, and with whatever the library warns of in between.
	story := regexp.MustCompile(`(?s)first +writes with fence (\d+): the counter is 1\n` +
		`.*second +writes with fence (\d+): the counter is 2\n` +
		`.*first +writes: fence (\d+): refused, a newer lease has written\n` +
		`.*first +looks at its context: lease lost: not renewed in time\n` +
		`.*counter: 2\n`)
	m := story.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("the output does not match %v", story)
	}
	if m[3] != m[1] || m[2] <= m[1] {
		t.Errorf("fences %s, %s and %s: want the first again at the end, and the second greater", m[1], m[2], m[3])
	}
}

func TestCounter_Add_RefusesAFenceOlderThanTheGreatest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counter.db")
	for i, step := range []struct {
		fence uint64
		value int // 0 means refused
	}{{5, 1}, {5, 2}, {7, 3}, {6, 0}, {5, 0}, {7, 4}} {
		// Opened anew each time: what was seen is in the file, not in the process.
		c, err := newCounter(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		value, err := c.add(t.Context(), step.fence)
		if refused := errors.Is(err, errStale); refused != (step.value == 0) || !refused && err != nil || value != step.value {
			t.Errorf("write %d with fence %d: %d, %v; want %d", i, step.fence, value, err, step.value)
		}
		if err := c.close(); err != nil {
			t.Fatal(err)
		}
	}
}
