package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
)

// TB is what this package needs of a test; every [testing.TB] has it. [Run] makes one for other programs.
type TB interface {
	Helper()
	Context() context.Context
	TempDir() string
	Cleanup(f func())
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Run calls f with a TB for a program that is not a test, cleans up when f has returned, and returns what f gave to
// Fatalf or Skipf, or the first error of the clean-up. The context of the TB is ctx.
func Run(ctx context.Context, f func(t TB)) error {
	p := &program{ctx: ctx}
	// Fatalf ends the goroutine, as it does in a test, so that clean-ups see f unwound.
	var running sync.WaitGroup
	running.Go(func() { f(p) })
	running.Wait()
	for _, f := range slices.Backward(p.cleanups) {
		f()
	}
	return p.err
}

// program is the TB of Run. Like a test, it is used by the goroutine that runs f.
type program struct {
	ctx      context.Context //nolint:containedctx // TB.Context hands it out; the value lives as long as Run.
	cleanups []func()
	err      error
}

func (p *program) Helper() {}

func (p *program) Context() context.Context { return p.ctx }

func (p *program) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }

func (p *program) TempDir() string {
	dir, err := os.MkdirTemp("", "leader-testserver-")
	if err != nil {
		p.Fatalf("make a data folder: %v", err)
	}
	p.Cleanup(func() { p.err = errors.Join(p.err, os.RemoveAll(dir)) })
	return dir
}

func (p *program) Skipf(format string, args ...any) { p.Fatalf(format, args...) }

func (p *program) Fatalf(format string, args ...any) {
	p.err = errors.Join(p.err, fmt.Errorf(format, args...))
	runtime.Goexit()
}
