package backendtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// childEnv has the address of the store in a process that is a holder.
	childEnv = "LEADER_OVERLAP_CHILD"
	// reportFile is the file on which a child reports.
	reportFile = 3
	// childLimit ends a child that was forgotten.
	childLimit = "2m"

	reportEvery = 10 * time.Millisecond
)

// report is what a child tells of its holdings, again and again. It is also a write, in each name, by work that does not
// look at its context: what the process was about to do when it was stopped, it does when it goes on.
type report []holding

// child is the part of a holder in a process of its own. It goes on until its standard input ends.
func (c OverlapConfig) child(t *testing.T, address string) {
	t.Helper()
	h := hold(t, c.Dial(t, address), c.Lease, phases(c.Lease))
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	out := json.NewEncoder(os.NewFile(reportFile, "report"))
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	for {
		if err := out.Encode(report(h.holdings())); err != nil {
			return // the parent is gone
		}
		select {
		case <-ticker.C:
		case <-over:
			return
		}
	}
}

// process is a child process that holds every name.
type process struct {
	*os.Process

	end func() error // lets it release what it has and end, if it still runs, and returns how it ended

	mu   sync.Mutex
	last report
}

// startHolder starts this test binary again, with the test of the given name, as a holder, and returns when it has every
// name. Its reports also go to take.
func startHolder(t *testing.T, test, address string, take func(report)) *process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run="+only(test), "-test.timeout="+childLimit)
	cmd.Env = append(os.Environ(), childEnv+"="+address)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{out}
	err = cmd.Start()
	_ = out.Close() // the child's copy counts
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Process: cmd.Process}
	var reading sync.WaitGroup
	reading.Go(func() { p.read(in, take) })
	p.end = sync.OnceValue(func() error {
		_ = stdin.Close() // it may have ended
		reading.Wait()
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%w\n%s", err, output.Bytes())
		}
		return nil
	})
	t.Cleanup(func() {
		_ = p.Kill() // it may have ended
		_ = p.end()  // and that was looked at where it matters
	})
	until(t, "the process holds every name", func() bool { return len(p.holdings()) == seeds })
	return p
}

// only is the pattern that selects one test, or subtest.
func only(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// read takes in reports until the process has ended.
func (p *process) read(in io.Reader, take func(report)) {
	for decoder := json.NewDecoder(in); ; {
		var r report
		if err := decoder.Decode(&r); err != nil {
			return
		}
		take(r)
		p.mu.Lock()
		p.last = r
		p.mu.Unlock()
	}
}

// holdings returns what the process has reported last.
func (p *process) holdings() []holding {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// lostAll reports whether the process has found every lease lost.
func (p *process) lostAll() bool {
	for _, h := range p.holdings() {
		if h.Lost == "" {
			return false
		}
	}
	return true
}
