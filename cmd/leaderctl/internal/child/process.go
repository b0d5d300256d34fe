//go:build unix

package child

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

// orderTime is how long an order may wait for a guard that does not read, or does not obey.
const orderTime = 100 * time.Millisecond

// Process is a running command. All methods may be called concurrently.
type Process struct {
	guard   *exec.Cmd
	orders  *os.File
	encoder *gob.Encoder // of orders
	reports *os.File
	group   int
	grace   time.Duration
	reserve time.Duration

	mu     sync.Mutex // one order at a time
	until  instant    // the deadline
	endBy  instant    // when the guard must have obeyed Stop or Kill; 0 without
	killed bool       // the group was killed from here

	wake   chan struct{} // has room for one; endBy has changed
	done   chan struct{}
	status Status // once done
}

// Start starts the command under a guard. until is the deadline. The command has the standard streams of this process,
// but a terminal for its input is replaced by nothing, because a group in the background may not read it. ctx has no
// power over the command.
func Start(ctx context.Context, c *Command, until time.Time) (*Process, error) {
	p := &Process{
		grace: c.Grace, reserve: c.Reserve, until: at(until), wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if err := p.startGuard(context.WithoutCancel(ctx)); err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	decoder := gob.NewDecoder(p.reports)
	group, err := p.launch(c, decoder)
	if err != nil {
		p.end()
		return nil, err
	}
	p.group = group
	reports := make(chan report, 1)
	go read(decoder, reports)
	go p.watch(reports)
	return p, nil
}

// launch sends the first order, which may be larger than a pipe, and waits for the group. A guard that is stopped or slow
// is killed at the deadline, and with it what it may have started.
func (p *Process) launch(c *Command, decoder *gob.Decoder) (group int, err error) {
	timer := time.AfterFunc(p.until.add(-p.reserve/2).left(), func() { _ = p.guard.Process.Kill() })
	defer timer.Stop()
	if err := p.encoder.Encode(order{Command: c, Until: p.until}); err != nil {
		return 0, p.broken(err)
	}
	var starts, begun report
	if err := decoder.Decode(&starts); err != nil {
		return 0, p.broken(err)
	}
	if !starts.Starts {
		return 0, starts.err()
	}
	if err := decoder.Decode(&begun); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUncertain, p.broken(err))
	}
	return begun.Group, begun.err()
}

// broken is the error of a guard that has ended, and said nothing.
func (p *Process) broken(err error) error {
	if p.until.add(-p.reserve/2).left() <= 0 {
		return ErrLate
	}
	return fmt.Errorf("the guard ended too early: %w", err)
}

func (p *Process) startGuard(ctx context.Context) error {
	program, err := itself()
	if err != nil {
		return err
	}
	input, err := inputFor()
	if err != nil {
		return err
	}
	defer input.Close()
	orders, ordersEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	defer orders.Close()
	reportsEnd, reports, err := os.Pipe()
	if err != nil {
		return errors.Join(err, ordersEnd.Close())
	}
	defer reports.Close()
	p.orders, p.encoder, p.reports = ordersEnd, gob.NewEncoder(ordersEnd), reportsEnd
	p.guard = exec.CommandContext(ctx, program)
	p.guard.Args = []string{guardName}
	p.guard.Stdin, p.guard.Stdout, p.guard.Stderr = input, os.Stdout, os.Stderr
	p.guard.ExtraFiles = []*os.File{orders, reports}
	// Signals from a terminal, and for the tool's group, are not for it.
	p.guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := p.guard.Start(); err != nil {
		return errors.Join(err, ordersEnd.Close(), reportsEnd.Close())
	}
	return nil
}

// inputFor is what the command reads.
func inputFor() (*os.File, error) {
	if term.IsTerminal(int(os.Stdin.Fd())) {
		return os.Open(os.DevNull)
	}
	fd, err := syscall.Dup(int(os.Stdin.Fd()))
	if err != nil {
		return os.Open(os.DevNull) // there is no input
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "input"), nil
}

func read(decoder *gob.Decoder, reports chan<- report) {
	defer close(reports)
	var last report
	if err := decoder.Decode(&last); err == nil {
		reports <- last
	}
}

// watch waits for the end of the command. It kills the group if the guard has not done it in time.
func (p *Process) watch(reports <-chan report) {
	timer := time.NewTimer(0)
	for {
		select {
		case r, ok := <-reports:
			p.conclude(r, ok)
			return
		case <-p.wake:
		case <-timer.C:
		}
		timer.Reset(min(p.overdue(), nap))
	}
}

// overdue kills the group if the guard has not, and returns when to look again.
func (p *Process) overdue() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	end := p.until.add(-p.reserve / 2)
	if p.endBy != 0 {
		end = min(end, p.endBy)
	}
	if left := end.left(); left > 0 {
		return left
	}
	p.killed = true
	_ = syscall.Kill(-p.group, syscall.SIGKILL)
	_ = p.guard.Process.Signal(syscall.SIGCONT) // only the guard can tell that the command has ended
	return lookEvery
}

// conclude notes how the command ended; ok is false if the guard died without telling it.
func (p *Process) conclude(r report, ok bool) {
	if ok && r.Status != nil {
		p.status = *r.Status
	} else {
		KillGroup(p.group)
		p.status = Status{Code: 128 + int(syscall.SIGKILL), Cause: GuardDied}
	}
	p.mu.Lock()
	if p.killed && p.status.Cause == ByItself { // the guard does not know who killed it
		p.status.Cause = ByDeadline
	}
	p.mu.Unlock()
	p.end()
	close(p.done)
}

// end waits for the guard, which has nothing more to do.
func (p *Process) end() {
	_ = p.orders.Close()
	_ = p.reports.Close()
	_ = p.guard.Wait()
}

// send tells the guard something. It must not wait for one that is stopped, and one that is gone is noticed elsewhere.
func (p *Process) send(o order) {
	_ = p.orders.SetWriteDeadline(time.Now().Add(orderTime))
	_ = p.encoder.Encode(o)
}

// Trust moves the deadline to a later instant.
func (p *Process) Trust(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if next := at(until); next > p.until {
		p.until = next
		p.send(order{Until: next})
	}
}

// Signal sends a signal to the group.
func (p *Process) Signal(sig os.Signal) {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.send(order{Signal: int(s)})
}

// Stop ends the group, with TERM and, after the grace, KILL.
func (p *Process) Stop() { p.endWithin(p.grace+orderTime, order{Stop: true}) }

// Kill ends the group at once.
func (p *Process) Kill() { p.endWithin(orderTime, order{Kill: true}) }

// endWithin gives an order which the guard must have obeyed after that time.
func (p *Process) endWithin(d time.Duration, o order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endBy = now().add(d)
	p.send(o)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Done is closed when nothing of the group is alive.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status is how the command ended, once Done is closed.
func (p *Process) Status() Status { return p.status }
