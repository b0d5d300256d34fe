package main

import (
	"regexp"
	"testing"

	"github.com/goleader/leader/examples/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

func TestFencedWrites_EachResourceRefusesTheZombie(t *testing.T) {
	path := exampletest.Build(t)
	out := exampletest.Run(t, path, "-redis", testserver.Redis(t).Addr(), "-mongo", testserver.Mongo(t).URL())
	t.Logf("\n%s", out)
	for _, resource := range []string{"table", "object", "redis", "document"} {
		line := `(?m)^  ` + resource + ` +refused: a later leader has written; it keeps "the second node's report"$`
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("no line like %q", line)
		}
	}
}

func TestFencedWrites_NeedsGoAlone(t *testing.T) {
	out := exampletest.Run(t, exampletest.Build(t))
	if n := len(regexp.MustCompile(`refused: a later leader has written`).FindAllString(out, -1)); n != 2 {
		t.Errorf("%d resources refused the zombie, want the table and the object:\n%s", n, out)
	}
}
