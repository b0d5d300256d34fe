package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
)

// show starts four workers, kills one that works, and waits until another has its slot.
func show(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "leader-worker-group-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "workers.db")
	store, err := sqliteleader.Open(path, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	group, err := leader.NewGroup(store, slots) // it only asks who works
	if err != nil {
		return err
	}
	workers := make(crew)
	defer workers.stop()
	for _, id := range []string{"a", "b", "c", "d"} {
		if err := workers.start(path, id); err != nil {
			return err
		}
	}
	state, err := await(ctx, group, func(s leader.GroupState) bool { return len(s.Active) == slots })
	if err != nil {
		return err
	}
	report(state)

	dead := state.Active[0]
	say("show", "kills %s, which has slot %d", dead.Node, dead.Slot)
	if err := workers.kill(dead.Node); err != nil {
		return err
	}
	state, err = await(ctx, group, func(s leader.GroupState) bool {
		return len(s.Active) == slots && s.Active[0].Node != dead.Node
	})
	if err != nil {
		return err
	}
	report(state)
	return nil
}

// await asks who works until it is as wanted.
func await(ctx context.Context, g leader.GroupElector, wanted func(leader.GroupState) bool) (leader.GroupState, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		state, err := g.State(ctx, name)
		if err != nil || wanted(state) {
			return state, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return state, ctx.Err()
		}
	}
}

// report prints who works.
func report(s leader.GroupState) {
	for _, a := range s.Active {
		say("show", "sees %s in slot %d of %d, fence %d", a.Node, a.Slot, s.Slots, a.Fence)
	}
}

// crew is the workers' processes, by name.
type crew map[string]*exec.Cmd

// start starts this program again as a worker.
func (c crew) start(path, id string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	w := exec.Command(program, "-file", path, "-node", id) //nolint:noctx // stop ends it gently
	w.Stdout, w.Stderr = os.Stdout, os.Stderr
	if err := w.Start(); err != nil {
		return fmt.Errorf("start %s: %w", id, err)
	}
	c[id] = w
	return nil
}

// kill kills a worker without warning.
func (c crew) kill(id string) error {
	w := c[id]
	delete(c, id)
	err := w.Process.Kill()
	_ = w.Wait() // it says that the worker was killed
	return err
}

// stop asks the workers to stop, so that they release their slots, and waits for them.
func (c crew) stop() {
	var errs []error
	for _, w := range c {
		if runtime.GOOS == "windows" {
			errs = append(errs, w.Process.Kill()) // it cannot be asked there
		} else {
			errs = append(errs, w.Process.Signal(os.Interrupt))
		}
	}
	for _, w := range c {
		errs = append(errs, w.Wait())
	}
	if err := errors.Join(errs...); err != nil {
		say("show", "could not stop the workers: %v", err)
	}
}
