package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/cmd/leaderctl/internal/child"
)

// job is a command that runs under leases.
type job struct {
	tool    *tool
	relay   *relay
	name    string
	command child.Command
	group   bool
	options []leader.RunOption
	renewed chan struct{} // has room for one

	status *child.Status // of the command that ended last; nil before the first one
	fence  uint64        // of its lease
}

// hooks tell of each new deadline.
func (j *job) hooks() leader.Hooks {
	return leader.Hooks{Renewed: func(context.Context, leader.LeaseInfo, time.Duration) {
		select {
		case j.renewed <- struct{}{}:
		default:
		}
	}}
}

// lead runs the command under the lease of ctx, and returns when nothing of its group is alive.
func (j *job) lead(ctx context.Context) error {
	lease, ok := leader.LeaseFrom(ctx)
	if !ok {
		return lease.Err()
	}
	info := lease.Info()
	j.fence, j.status = info.Fence, nil
	command := j.command
	// A slot of the tool's own environment is that of another lease.
	command.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LEADER_SLOT=") })
	command.Env = append(command.Env, "LEADER_NAME="+info.Name, "LEADER_NODE="+info.Node,
		"LEADER_FENCE="+strconv.FormatUint(info.Fence, 10))
	if j.group {
		command.Env = append(command.Env, "LEADER_SLOT="+strconv.Itoa(info.Slot))
	}
	p, err := j.relay.start(func() (*child.Process, error) { return child.Start(ctx, &command, lease.TrustedUntil()) })
	if err != nil {
		return err
	}
	defer j.relay.ended()
	status := j.attend(ctx, lease, p)
	j.status = &status
	if status.Code != 0 || status.Cause != child.ByItself {
		return &failed{status}
	}
	return nil
}

// attend tells the command's guard of what happens to the lease until the command has ended.
func (j *job) attend(ctx context.Context, lease *leader.Lease, p *child.Process) child.Status {
	over := ctx.Done()
	for {
		p.Trust(lease.TrustedUntil()) // also for what was renewed before somebody listened
		select {
		case <-p.Done():
			return p.Status()
		case <-j.renewed:
		case <-over:
			over = nil
			if errors.Is(context.Cause(ctx), leader.ErrMaxHold) {
				p.Stop()
			} else {
				p.Kill() // another node may lead already
			}
		}
	}
}

// failed is the error of a command that did not succeed.
type failed struct{ child.Status }

func (f *failed) Error() string {
	switch f.Cause {
	case child.ByDeadline:
		return "ended because the lease could not be renewed in time"
	case child.ByStop:
		return "ended because the lease was over"
	case child.GuardDied:
		return "killed because its guard was"
	case child.ByItself:
	}
	if f.Code > exitSignal {
		return "ended by signal " + strconv.Itoa(f.Code-exitSignal)
	}
	return "exit code " + strconv.Itoa(f.Code)
}

// once runs the command if the lease is got.
func (j *job) once(e runner, o *runFlags) error {
	opts := j.options
	if o.wait != 0 {
		opts = append(opts, leader.WithWaitTime(o.wait))
	}
	if o.runKey != "" {
		opts = append(opts, leader.WithRunKey(o.runKey, o.keep))
	}
	if o.retryFailed {
		opts = append(opts, leader.WithRetryFailedRun())
	}
	r, err := e.RunIfLeader(j.relay.ctx, j.name, j.lead, opts...)
	switch {
	case err != nil:
		return err
	case r.Outcome == leader.Skipped:
		return j.conclude(exitSkipped, skipText(&r))
	}
	return j.ended(r.Err, r.Lost)
}

func skipText(r *leader.RunResult) string {
	switch {
	case r.Reason == leader.AlreadyRan:
		return "the run key was used before"
	case r.Holder.Kept:
		return "a minimum lease keeps the name taken"
	case r.Holder.Node != "":
		return r.Holder.Node + " leads"
	}
	return "another node leads"
}

// campaign runs the command whenever this node leads, until it ends by itself.
func (j *job) campaign(e runner) error {
	for {
		err := e.Campaign(j.relay.ctx, j.name, j.lead, j.options...)
		ended, ok := errors.AsType[*failed](err)
		late := ok && ended.Cause == child.ByDeadline || errors.Is(err, child.ErrLate)
		if late && j.relay.ctx.Err() == nil {
			continue // renewing succeeded after all, too late for the command
		}
		switch {
		case err == nil, ok:
			return j.ended(err, nil)
		case errors.Is(err, child.ErrLate), errors.Is(err, child.ErrNotRun):
			return j.notStarted(err, nil)
		}
		return err
	}
}

// ended is the result of a command that was started, or could not be. lost is why its lease was over before.
func (j *job) ended(err, lost error) error {
	if j.status == nil {
		return j.notStarted(err, lost)
	}
	switch {
	case j.status.Cause == child.GuardDied:
		return j.conclude(exitInternal, err.Error())
	case lost != nil && !errors.Is(lost, leader.ErrReleased):
		return j.conclude(exitLost, lost.Error())
	case j.status.Cause != child.ByItself:
		return j.conclude(exitLost, err.Error())
	}
	return j.conclude(j.status.Code, "")
}

// notStarted is the result of a command that could not be started under its lease.
func (j *job) notStarted(err, lost error) error {
	_, interrupted := errors.AsType[signaled](err)
	switch {
	case interrupted:
		return err
	case errors.Is(err, child.ErrLate), lost != nil:
		return j.conclude(exitLost, err.Error())
	case errors.Is(err, child.ErrNotRun):
		return exit(exitCannotRun, err)
	}
	return exit(exitInternal, fmt.Errorf("run %q: %w", j.name, err))
}

// conclude says what became of the run, and makes the tool end with the code.
func (j *job) conclude(code int, text string) error {
	if j.tool.json {
		j.tool.printErr(runReport{Name: j.name, Outcome: outcomeOf(code), Exit: code, Fence: j.fence, Why: text})
	} else if text != "" {
		fmt.Fprintf(j.tool.err, "leaderctl: run %q: %s: %s\n", j.name, outcomeOf(code), printable(text))
	}
	if code == exitOK {
		return nil
	}
	return exit(code, nil)
}

// runReport is what run says of itself.
type runReport struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"` // ended, skipped, lost, internal
	Exit    int    `json:"exit"`
	Fence   uint64 `json:"fence,omitempty"`
	Why     string `json:"why,omitempty"`
}

func outcomeOf(code int) string {
	switch code {
	case exitSkipped:
		return "skipped"
	case exitLost:
		return "lost"
	case exitInternal:
		return "internal"
	}
	return "ended"
}
