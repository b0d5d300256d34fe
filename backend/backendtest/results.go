package backendtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// matrixFolder is the environment variable that names the folder for Results.
const matrixFolder = "LEADER_MATRIX"

// Results are what [Run] found out about a driver. If the environment variable LEADER_MATRIX names a folder, Run writes
// them there, in JSON, one file for each test that calls it.
type Results struct {
	Backend  string             `json:"backend"` // the driver's Name
	Package  string             `json:"package"` // the folder of the test
	Fidelity Fidelity           `json:"fidelity"`
	Cases    map[string]Outcome `json:"cases"` // by name; those that ran
}

// Outcome is what came of one case.
type Outcome struct {
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason,omitempty"` // of a case that was not judged
}

// Verdict is an outcome without its reason.
type Verdict string

// The verdicts.
const (
	Passed     Verdict = "passed"
	Failed     Verdict = "failed"
	Skipped    Verdict = "skipped"     // the store or the test cannot do what the case needs
	NotOffered Verdict = "not offered" // the driver lacks the ability that the case is about
)

// report tells a test that it was not judged. Failures were reported when they happened.
func (o Outcome) report(tb testing.TB) {
	tb.Helper()
	if o.Verdict == Skipped || o.Verdict == NotOffered {
		tb.Skip("skipped: " + o.Reason)
	}
}

// findings collects outcomes. It may be used concurrently.
type findings struct {
	mu    sync.Mutex
	cases map[string]Outcome
}

func newFindings() *findings { return &findings{cases: make(map[string]Outcome)} }

func (f *findings) add(name string, o Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cases[name] = o
}

// write stores the Results if somebody wants them.
func (f *findings) write(t *testing.T, c Config) {
	t.Helper()
	folder := os.Getenv(matrixFolder)
	if folder == "" {
		return
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := json.MarshalIndent(Results{
		Backend:  c.Open(t, 1)[0].Name(),
		Package:  filepath.Base(here),
		Fidelity: c.Fidelity,
		Cases:    f.cases,
	}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(here) + "-" + strings.ReplaceAll(t.Name(), "/", "-") + ".json"
	err = os.WriteFile(filepath.Join(folder, name), text, 0o600) //nolint:gosec // whoever runs the test names the folder
	if err != nil {
		t.Fatal(err)
	}
}
