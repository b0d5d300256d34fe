package backendtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader/backend/backendtest/netfault"
)

// seat is the place of one process, in which others follow those that are killed.
type seat struct {
	address string
	proxy   *netfault.Proxy // nil if its connections cannot be frozen
	test    string
	reading sync.WaitGroup

	mu      sync.Mutex
	slots   int
	stirred bool // leases come and go
	process *contestant
	tenures map[tenureKey]tenure
	faults  map[string]int // how many there have been, by name
	errs    []error
}

type tenureKey struct {
	slot  int
	fence uint64
	node  string
}

// contestant is a process.
type contestant struct {
	*exec.Cmd

	stdin  io.WriteCloser
	output bytes.Buffer
}

// newSeat starts the first process of a seat. It contends once it was told the number of slots.
func (c OracleConfig) newSeat(t *testing.T, address string) *seat {
	t.Helper()
	s := &seat{
		address: address, test: t.Name(),
		tenures: make(map[tenureKey]tenure), faults: make(map[string]int),
	}
	if c.TCP {
		proxy, err := netfault.Listen(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		s.address, s.proxy = proxy.Addr(), proxy
	}
	t.Cleanup(s.clear)
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// clear ends what is left of a test that failed.
func (s *seat) clear() {
	if s.process != nil {
		_ = s.process.Process.Kill() // it has ended, most of the time
		_ = s.process.Wait()
	}
	s.reading.Wait()
}

// start starts this test binary again, as the process of the seat.
func (s *seat) start(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	p := &contestant{Cmd: exec.CommandContext(ctx, program, "-test.run="+only(s.test), "-test.timeout="+childLimit)}
	p.Env = append(os.Environ(), oracleEnv+"="+s.address)
	p.Stdout, p.Stderr = &p.output, &p.output
	if p.stdin, err = p.StdinPipe(); err != nil {
		return err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	p.ExtraFiles = []*os.File{out}
	err = p.Start()
	_ = out.Close() // the child's copy counts
	if err != nil {
		_ = in.Close()
		return err
	}
	s.reading.Go(func() { s.read(in) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = p
	if s.slots > 0 {
		p.tell(strconv.Itoa(s.slots))
	}
	if s.stirred {
		p.tell(stirring)
	}
	return nil
}

// read takes in what a process reports until it has ended.
func (s *seat) read(in io.ReadCloser) {
	defer in.Close()
	for lines := json.NewDecoder(in); ; {
		var n tenure
		if err := lines.Decode(&n); err != nil {
			return
		}
		s.mu.Lock()
		s.tenures[tenureKey{n.Slot, n.Fence, n.Node}] = n
		s.mu.Unlock()
	}
}

// tell makes the process, and those that follow it, contend for another number of slots.
func (s *seat) tell(slots int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots, s.stirred = slots, false
	s.process.tell(strconv.Itoa(slots))
}

// stir lets the process, and those that follow it, have their leases come and go.
func (s *seat) stir() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stirred = true
	s.process.tell(stirring)
}

func (p *contestant) tell(line string) {
	_, _ = fmt.Fprintln(p.stdin, line) // one that was killed is told when it is replaced
}

// torment lets one fault after another happen to the process until ctx ends.
func (s *seat) torment(ctx context.Context) {
	names := []string{"kill -9"}
	faults := map[string]func(ctx context.Context) error{"kill -9": s.kill, "stop": s.stop, "freeze": s.freeze}
	if canStop {
		names = append(names, "stop")
	}
	if s.proxy != nil {
		names = append(names, "freeze")
	}
	for rest(ctx, 500*time.Millisecond+rand.N(2*time.Second)) {
		name := names[rand.N(len(names))]
		if err := faults[name](ctx); err != nil {
			s.fail(fmt.Errorf("%s: %w", name, err))
		}
		s.mu.Lock()
		s.faults[name]++
		s.mu.Unlock()
	}
}

// outage is how long a fault lasts: now shorter than the leases, now longer.
func outage() time.Duration { return 100*time.Millisecond + rand.N(1900*time.Millisecond) }

// kill kills the process and starts another one.
func (s *seat) kill(ctx context.Context) error {
	p := s.process
	if err := p.Process.Kill(); err != nil {
		return err
	}
	_ = p.Wait() // it says how the process ended, and so does what follows
	if p.ProcessState.Exited() || p.output.Len() > 0 {
		return fmt.Errorf("the process had ended by itself: %v\n%s", p.ProcessState, p.output.Bytes())
	}
	return s.start(context.WithoutCancel(ctx))
}

func (s *seat) stop(ctx context.Context) error {
	p := s.process.Process
	if err := stopProcess(p); err != nil {
		return err
	}
	rest(ctx, outage())
	return continueProcess(p)
}

func (s *seat) freeze(ctx context.Context) error {
	s.proxy.Freeze()
	rest(ctx, outage())
	s.proxy.Thaw()
	return nil
}

// rest returns after d, or false as soon as ctx ends.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// end lets the process end, and returns when it has.
func (s *seat) end() {
	p := s.process
	_ = p.stdin.Close()
	s.reading.Wait()
	if err := p.Wait(); err != nil {
		s.fail(fmt.Errorf("the process ended with %w\n%s", err, p.output.Bytes()))
	}
}

func (s *seat) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
}

// reports returns the tenures that the processes have reported so far.
func (s *seat) reports() []tenure {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.tenures))
}
