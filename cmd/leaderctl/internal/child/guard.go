//go:build unix

package child

import (
	"encoding/gob"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// The guard's own arguments and descriptors.
const (
	guardName = "leader-guard"

	ordersFile  = 3
	reportsFile = 4
)

const (
	// nap is the longest time between two looks at the clock, as timers may stand still while the machine sleeps.
	nap = time.Second
	// leftoverTime is how long the rest of a group has after the command itself has ended.
	leftoverTime = time.Second
	// lookEvery is the time between two looks whether a group is empty.
	lookEvery = 10 * time.Millisecond
)

// IsGuard reports whether this process is a guard.
func IsGuard() bool { return len(os.Args) == 1 && os.Args[0] == guardName }

// guard ends the group of one command in time.
type guard struct {
	orders  *gob.Decoder
	reports *gob.Encoder

	command *Command
	process *exec.Cmd
	group   int

	until  instant // the deadline
	killAt instant // after TERM; 0 before
	cause  Cause   // set when TERM or KILL was sent
}

// Guard is the main function of a guard. It returns the exit code, which nobody asks for.
func Guard() int {
	// The kernel kills the command when the thread that started it ends, and this one ends with the process.
	runtime.LockOSThread()
	adopt()
	syscall.CloseOnExec(ordersFile)
	syscall.CloseOnExec(reportsFile)
	_ = os.WriteFile("/proc/self/comm", []byte(guardName), 0) // for those who look at the list of processes
	catchSignals()
	g := &guard{
		orders:  gob.NewDecoder(os.NewFile(ordersFile, "orders")),
		reports: gob.NewEncoder(os.NewFile(reportsFile, "reports")),
	}
	if err := g.start(); err != nil {
		_ = g.reports.Encode(report{Late: errors.Is(err, ErrLate), Failed: err.Error()})
		return 1
	}
	status := g.watch()
	_ = g.reports.Encode(report{Status: &status}) // to a tool that may be gone
	return 0
}

// catchSignals keeps the guard alive. What is caught, not ignored, has its default effect on the command.
func catchSignals() {
	caught := []os.Signal{
		syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE,
		syscall.SIGHUP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
	}
	for _, sig := range caught {
		if !signal.Ignored(sig) { // as under nohup, which the command is to inherit
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// start waits for the command and starts it, unless the tool or its lease has gone before.
func (g *guard) start() error {
	var first order
	if err := g.orders.Decode(&first); err != nil {
		return err
	}
	if first.Command == nil {
		return errors.New("the first order has no command")
	}
	g.command, g.until = first.Command, first.Until
	if g.until.add(-g.command.Reserve).left() <= 0 {
		return ErrLate
	}
	g.process = &exec.Cmd{
		Path: g.command.Path, Args: g.command.Args, Env: g.command.Env,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, SysProcAttr: own(),
	}
	_ = g.reports.Encode(report{Starts: true})
	if err := g.process.Start(); err != nil {
		return err
	}
	g.group = g.process.Process.Pid
	_ = g.reports.Encode(report{Group: g.group}) // a tool that is gone is noticed where its orders end
	return nil
}

// watch returns when the group has ended.
func (g *guard) watch() Status {
	orders := make(chan order)
	go g.read(orders)
	ended := make(chan syscall.WaitStatus, 1)
	go g.reap(ended)
	timer := time.NewTimer(0)
	for {
		select {
		case state := <-ended:
			if g.cause == "" {
				g.cause = ByItself
				g.awaitLeftovers(orders)
			}
			KillGroup(g.group)
			return Status{Code: codeOf(state), Cause: g.cause}
		case o, ok := <-orders:
			if !ok { // the tool is gone
				g.kill(ByStop)
				orders = nil
				continue
			}
			g.obey(o)
		case <-timer.C:
		}
		timer.Reset(min(g.act(), nap))
	}
}

// reap takes the status of the command, and of what has lost its parent, until there is nothing left.
func (g *guard) reap(ended chan<- syscall.WaitStatus) {
	for {
		var state syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &state, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return
		case pid == g.group:
			ended <- state
		}
	}
}

// read passes orders on until the tool is gone.
func (g *guard) read(orders chan<- order) {
	defer close(orders)
	for {
		var o order
		if err := g.orders.Decode(&o); err != nil {
			return
		}
		orders <- o
	}
}

func (g *guard) obey(o order) {
	g.until = max(g.until, o.Until)
	if o.Signal != 0 {
		_ = syscall.Kill(-g.group, syscall.Signal(o.Signal))
	}
	if o.Stop {
		g.term(ByStop, now().add(g.command.Grace))
	}
	if o.Kill {
		g.kill(ByStop)
	}
}

// act does what is due, and returns how long nothing else is.
func (g *guard) act() time.Duration {
	end := g.until.add(-g.command.Reserve)
	if g.killAt != 0 {
		end = min(end, g.killAt)
	}
	left := end.left()
	if left <= 0 {
		g.kill(ByDeadline)
		return nap
	}
	if g.killAt != 0 {
		return left
	}
	if untilTerm := left - g.command.Grace; untilTerm > 0 {
		return untilTerm
	}
	g.term(ByDeadline, end)
	return left
}

// term asks the group to end, which is final, and what is stopped to go on for that.
func (g *guard) term(why Cause, killAt instant) {
	if g.killAt != 0 {
		return
	}
	g.killAt = killAt
	if g.cause == "" {
		g.cause = why
	}
	_ = syscall.Kill(-g.group, syscall.SIGTERM)
	_ = syscall.Kill(-g.group, syscall.SIGCONT)
}

func (g *guard) kill(why Cause) {
	if g.cause == "" {
		g.cause = why
	}
	_ = syscall.Kill(-g.group, syscall.SIGKILL)
}

// awaitLeftovers lets the rest of the group end, at the end of a pipeline, say, unless the tool wants it dead or is gone.
func (g *guard) awaitLeftovers(orders <-chan order) {
	within := min(leftoverTime, g.until.add(-g.command.Reserve).left())
	for end := now().add(within); end.left() > 0 && !isEmpty(g.group); {
		select {
		case o, ok := <-orders:
			if !ok || o.Stop || o.Kill {
				return
			}
			g.obey(o)
		case <-time.After(lookEvery):
		}
	}
}

// KillGroup kills a group, and returns when it is empty, or after a second: what the kernel does not let die, or nobody
// waits for, may stay.
func KillGroup(group int) {
	_ = syscall.Kill(-group, syscall.SIGKILL)
	for end := now().add(leftoverTime); !isEmpty(group) && end.left() > 0; {
		time.Sleep(lookEvery)
	}
}

func isEmpty(group int) bool { return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) }

// codeOf is the exit code as shells have it.
func codeOf(state syscall.WaitStatus) int {
	if state.Signaled() {
		return 128 + int(state.Signal())
	}
	return state.ExitStatus()
}
