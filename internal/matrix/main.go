// Command matrix makes docs/backends.md from the results of the conformance suite. make matrix runs both.
package main

import (
	"errors"
	"flag"
	"log"
	"os"

	"github.com/goleader/leader/backend/backendtest"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("matrix: ")
	results := flag.String("results", "", "the `folder` in which the suite left its results")
	out := flag.String("out", "", "the `file` to write")
	flag.Parse()
	if err := generate(*results, *out); err != nil {
		log.Fatal(err)
	}
}

func generate(results, out string) error {
	if results == "" || out == "" {
		return errors.New("the flags -results and -out are required")
	}
	columns, err := read(results)
	if err != nil {
		return err
	}
	text, err := render(columns, backendtest.Cases())
	if err != nil {
		return err
	}
	return os.WriteFile(out, text, 0o644) //nolint:gosec // a page of the documentation, for everybody
}
