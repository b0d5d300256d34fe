package main

import (
	"strings"
	"testing"

	"github.com/goleader/leader/examples/internal/exampletest"
)

func TestGoroutineRunner_AllRunAndNoneBesideAnotherOfItsName(t *testing.T) {
	out := exampletest.Run(t, exampletest.Build(t))
	t.Log(out)
	if !strings.HasPrefix(out, "10000 runs under 100 names in ") ||
		!strings.HasSuffix(out, "; skipped 0, failed 0, overlaps 0\n") {
		t.Error("want 10000 runs, none skipped, none failed, no overlap")
	}
}
