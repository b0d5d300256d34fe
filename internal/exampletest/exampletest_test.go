package exampletest_test

import (
	"fmt"
	"testing"

	"github.com/goleader/leader/internal/exampletest"
)

// judge notes whether it was told of a difference.
type judge struct {
	testing.TB

	failed bool
}

func (j *judge) Helper()               {}
func (j *judge) Errorf(string, ...any) { j.failed = true }

func TestPrints_ComparesAllThatIsPrinted(t *testing.T) {
	a, b := func() { fmt.Println("a") }, func() { fmt.Println("b") }
	for want, differs := range map[string]bool{"a\nb\n": false, "a\n": true, "b\na\n": true} {
		j := &judge{TB: t}
		if exampletest.Prints(j, want, a, b); j.failed != differs {
			t.Errorf("%q: failed %t, want %t", want, j.failed, differs)
		}
	}
}
