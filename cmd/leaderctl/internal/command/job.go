package command

import (
	"context"
	"errors"
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
	maxHold time.Duration // the age of a lease that ends the command; 0 without one
	options []leader.RunOption
	renewed chan struct{} // has room for one

	// What is known of the term that was last.
	fence   uint64
	aged    bool          // the lease has reached its greatest age
	status  *child.Status // of the command; nil if none has run to its end
	failure error         // of lead
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
	j.fence, j.aged, j.status = 0, false, nil
	j.failure = j.hold(ctx)
	return j.failure
}

// leadOnce is lead for a run key that is used up by a command that fails. An error gives the key back, so it is one only
// if certainly nothing was started.
func (j *job) leadOnce(ctx context.Context) error {
	err := j.lead(ctx)
	if j.status != nil || errors.Is(err, child.ErrUncertain) {
		return nil
	}
	return err
}

// hold runs the command from its start to its end.
func (j *job) hold(ctx context.Context) error {
	lease, ok := leader.LeaseFrom(ctx)
	if !ok {
		return lease.Err()
	}
	info := lease.Info()
	j.fence = info.Fence
	command := j.command
	command.Env = j.environment(&info)
	p, err := j.relay.start(func() (*child.Process, error) { return child.Start(ctx, &command, lease.TrustedUntil()) })
	if err != nil {
		return err
	}
	defer j.relay.ended()
	status := j.attend(ctx, lease, p)
	j.status = &status
	if status.Code != 0 || status.Cause != child.ByItself {
		return &failed{status, j.aged}
	}
	return nil
}

// environment is the tool's own, with what the command is told of its lease.
func (j *job) environment(info *leader.LeaseInfo) []string {
	// A slot of the tool's own environment is that of another lease.
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LEADER_SLOT=") })
	env = append(env, "LEADER_NAME="+info.Name, "LEADER_NODE="+info.Node,
		"LEADER_FENCE="+strconv.FormatUint(info.Fence, 10))
	if j.group {
		env = append(env, "LEADER_SLOT="+strconv.Itoa(info.Slot))
	}
	return env
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
		case <-j.age(lease):
			j.aged = true
			p.Stop()
		case <-over:
			over = nil
			p.Kill() // another node may lead already
		}
	}
}

// age tells when the lease is too old, once, and never without a limit. The library has such a limit too, but does not
// tell of a loss that comes after it, while the command still ends. The time left is computed anew after each renewal, as
// timers may stand still while the machine sleeps.
func (j *job) age(lease *leader.Lease) <-chan time.Time {
	if j.maxHold == 0 || j.aged {
		return nil
	}
	return time.After(time.Until(lease.Info().Acquired.Add(j.maxHold)))
}

// once runs the command if the lease is got.
func (j *job) once(e runner, o *runFlags) error {
	lead, opts := j.lead, j.options
	if o.wait != 0 {
		opts = append(opts, leader.WithWaitTime(o.wait))
	}
	if o.runKey != "" {
		opts = append(opts, leader.WithRunKey(o.runKey, o.keep), leader.WithRetryFailedRun())
		if !o.retryFailed {
			lead = j.leadOnce
		}
	}
	r, err := e.RunIfLeader(j.relay.ctx, j.name, lead, opts...)
	switch {
	case err != nil:
		return err
	case r.Outcome == leader.Skipped:
		return j.conclude(outcomeSkipped, exitSkipped, skipText(&r))
	}
	return j.ended(r.Lost)
}

// campaign runs the command whenever this node leads, until it ends by itself or a signal asks for the end.
func (j *job) campaign(e runner) error {
	for {
		err := e.Campaign(j.relay.ctx, j.name, j.term, j.options...)
		_, interrupted := errors.AsType[signaled](err)
		_, ran := errors.AsType[*failed](err)
		switch sig, asked := j.relay.asked(); {
		case asked:
			return j.endedBy(sig)
		case interrupted:
			return err
		case goesOn(err):
			continue
		case err == nil, ran:
			return j.ended(nil)
		case errors.Is(err, child.ErrNotRun):
			return j.notStarted(nil)
		}
		return err
	}
}

// term is lead for one term of a campaign, which is the last one if the command was asked to end.
func (j *job) term(ctx context.Context) error {
	defer j.relay.settle()
	return j.lead(ctx)
}

// goesOn reports whether a campaign goes on although the lease was not lost. Renewing succeeded after all, but too late
// for the command, or that had its time.
func goesOn(err error) bool {
	ended, ok := errors.AsType[*failed](err)
	return ok && (ended.Cause == child.ByDeadline || ended.Cause == child.ByStop) || errors.Is(err, child.ErrLate)
}
