// Package exampletest runs documentation examples that need a server. An example with an Output comment would fail where
// that server is not installed; one that is run by a test can be skipped.
package exampletest

import (
	"io"
	"os"
	"testing"
)

// Prints runs examples one after the other and fails the test unless want is what they print together. Nothing else may
// print meanwhile.
func Prints(t testing.TB, want string, examples ...func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	printed := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(r) // what was printed before an error is compared too
		printed <- string(text)
	}()
	run(w, examples)
	if got := <-printed; got != want {
		t.Errorf("the examples print\n%s\nwant\n%s", got, want)
	}
}

// run runs the examples with w as the standard output, and closes it.
func run(w *os.File, examples []func()) {
	defer func(stdout *os.File) {
		os.Stdout = stdout
		_ = w.Close()
	}(os.Stdout)
	os.Stdout = w
	for _, example := range examples {
		example()
	}
}
