package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

const (
	startTimeout = 30 * time.Second     // the watchdog of a start
	lookTimeout  = 2 * time.Second      // of one look whether a server answers
	lookPeriod   = 5 * time.Millisecond // between two looks
	killTimeout  = 10 * time.Second     // the watchdog of the end of a killed server's children
	logTail      = 2 << 10              // bytes of a server's log in an error
)

// errEnded says that a server ended before it answered.
var errEnded = errors.New("ended before it answered")

// process is a server program that runs as a child of this one, or did. It is not safe for concurrent use.
type process struct {
	name string // for errors
	path string
	args []string
	dir  string // its working folder, where its log goes too

	owner *owner // whom it runs as, nil for the user of this process

	// ready looks once whether the process with this id answers. Another server may have the port, so the address
	// alone proves nothing.
	ready func(ctx context.Context, pid int) error

	child   *child // the last one started
	release func() // ends the guard of a stopped child, nil without one
}

// child is one run of a process.
type child struct {
	process *os.Process
	done    chan struct{} // closed when it has ended and end is set
	end     string        // how it ended
}

// start runs the program and waits until it answers. If it does not, nothing is left running.
func (p *process) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := p.spawn(ctx)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.child = c
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	for {
		err := p.look(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-look.C:
		case <-c.done:
			return fmt.Errorf("start %s: %w: %s\n%s", p.name, errEnded, c.end, p.log())
		case <-ctx.Done():
			p.kill()
			return fmt.Errorf("start %s: %w: %w\n%s", p.name, ctx.Err(), err, p.log())
		}
	}
}

func (p *process) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return p.ready(ctx, p.child.process.Pid)
}

// spawn starts the child. It outlives ctx, which ends with a test's body: clean-ups may still need the server.
func (p *process) spawn(ctx context.Context) (*child, error) {
	log, err := os.Create(p.logFile())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.path, p.args...) //nolint:gosec // A server of the test's.
	cmd.Dir = p.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = p.owner.attributes(dieWithParent())

	c := &child{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(c.done)
		// Linux sends the death signal when the thread ends that started the child, so this one stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // The state says it all.
			c.end = cmd.ProcessState.String()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	c.process = cmd.Process
	return c, nil
}

// stop freezes the child and the processes that it has started.
func (p *process) stop() error {
	stopped, err := freeze(p.child.process)
	if err != nil || len(stopped) == 0 {
		return err
	}
	p.unguard()
	p.release, err = guard(stopped)
	return err
}

// cont undoes stop.
func (p *process) cont() error {
	p.unguard()
	return cont(p.child.process)
}

func (p *process) unguard() {
	if p.release != nil {
		p.release()
		p.release = nil
	}
}

// kill ends the child, and the processes that it has started, as kill -9 does, also stopped ones, and returns when
// they are gone.
func (p *process) kill() {
	if p.running() {
		kill(p.child.process)
		<-p.child.done
	}
	p.unguard()
}

func (p *process) running() bool {
	if p.child == nil {
		return false
	}
	select {
	case <-p.child.done:
		return false
	default:
		return true
	}
}

func (p *process) logFile() string { return filepath.Join(p.dir, "server.log") }

// log is the end of what the server wrote.
func (p *process) log() string {
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-logTail):])
}
