package backendtest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

// caseT is the testing.TB of one case. The case runs on a goroutine of its own, so that one which hangs can be left
// behind, and a failure goes through Error of the TB below, never through its FailNow, so that a mutant's failures can
// be collected.
type caseT struct {
	testing.TB

	tc       testCase
	cfg      Config
	patience time.Duration
	ctx      context.Context //nolint:containedctx // as in testing.T, which hands its context out too
	limits   backend.Limits  // of the newest Open
	nodes    atomic.Int64    // for the names of owners

	mu     sync.Mutex
	failed bool
	skip   *string
	lacks  bool // the reason of skip is that the driver lacks the ability
	gone   bool // the case was left behind and reports to nobody
}

func newCaseT(tb testing.TB, tc testCase, c Config, patience, limit time.Duration) (*caseT, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	return &caseT{TB: tb, tc: tc, cfg: c, patience: patience, ctx: ctx}, cancel
}

// Context ends when the case does.
func (t *caseT) Context() context.Context { return t.ctx }

// Error reports a failure and goes on.
func (t *caseT) Error(args ...any) {
	t.Helper()
	t.fail(strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
}

// Errorf reports a failure and goes on.
func (t *caseT) Errorf(format string, args ...any) {
	t.Helper()
	t.fail(fmt.Sprintf(format, args...))
}

// Fatal reports a failure and ends the case.
func (t *caseT) Fatal(args ...any) {
	t.Helper()
	t.fail(strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
	runtime.Goexit()
}

// Fatalf reports a failure and ends the case.
func (t *caseT) Fatalf(format string, args ...any) {
	t.Helper()
	t.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// Fail reports a failure without words.
func (t *caseT) Fail() {
	t.Helper()
	t.fail("failed")
}

// FailNow reports a failure without words and ends the case.
func (t *caseT) FailNow() {
	t.Helper()
	t.fail("failed")
	runtime.Goexit()
}

// Failed reports whether a failure was reported.
func (t *caseT) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// Log writes to the test log.
func (t *caseT) Log(args ...any) {
	t.Helper()
	t.Logf("%s", strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
}

// Logf writes to the test log.
func (t *caseT) Logf(format string, args ...any) {
	t.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.gone {
		t.TB.Logf(format, args...)
	}
}

// Skip ends the case without a verdict.
func (t *caseT) Skip(args ...any) {
	reason := strings.TrimSuffix(fmt.Sprintln(args...), "\n")
	t.mu.Lock()
	t.skip = &reason
	t.mu.Unlock()
	runtime.Goexit()
}

// lack ends the case without a verdict, because the driver does not offer what it is about.
func (t *caseT) lack(reason string) {
	t.mu.Lock()
	t.lacks = true
	t.mu.Unlock()
	t.Skip(reason)
}

// Skipf ends the case without a verdict.
func (t *caseT) Skipf(format string, args ...any) { t.Skip(fmt.Sprintf(format, args...)) }

// SkipNow ends the case without a verdict.
func (t *caseT) SkipNow() { t.Skip("skipped") }

// Skipped reports whether the case was skipped.
func (t *caseT) Skipped() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.skip != nil
}

// outcome is what has come of the case.
func (t *caseT) outcome() Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.failed:
		return Outcome{Verdict: Failed}
	case t.skip == nil:
		return Outcome{Verdict: Passed}
	case t.lacks:
		return Outcome{NotOffered, *t.skip}
	}
	return Outcome{Skipped, strings.TrimPrefix(*t.skip, "skipped: ")}
}

// fail reports text together with the rule.
func (t *caseT) fail(text string) {
	t.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return
	}
	t.failed = true
	t.TB.Errorf("%s\n%s", t.tc.text(), text)
}

// abandon reports text as the last failure and leaves the case behind.
func (t *caseT) abandon(text string) {
	t.Helper()
	t.fail(text)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone = true
}
