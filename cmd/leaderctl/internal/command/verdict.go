package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/goleader/leader"
	"github.com/goleader/leader/cmd/leaderctl/internal/child"
)

// outcome is what became of a run. It says whose the exit code is, which the code alone cannot.
type outcome string

const (
	outcomeEnded       outcome = "ended"       // the command ended by itself, and the code is its own
	outcomeSkipped     outcome = "skipped"     // the command did not run
	outcomeLost        outcome = "lost"        // the lease was over before
	outcomeInterrupted outcome = "interrupted" // the lease was over before, and a signal had asked for the end
	outcomeInternal    outcome = "internal"    // the tool could not do its part
)

// runReport is what run says of itself.
type runReport struct {
	Name    string  `json:"name"`
	Outcome outcome `json:"outcome"`
	Exit    int     `json:"exit"`
	Fence   uint64  `json:"fence,omitempty"`
	Why     string  `json:"why,omitempty"`
}

// errAged is why a lease is over that has reached its greatest age.
var errAged = fmt.Errorf("%w: %w", leader.ErrLeaseLost, leader.ErrMaxHold)

// failed is the error of a command that did not succeed.
type failed struct {
	child.Status

	aged bool // its lease had reached its greatest age
}

func (f *failed) Error() string {
	switch f.Cause {
	case child.ByDeadline:
		return "ended because the lease could not be renewed in time"
	case child.ByStop:
		if f.aged {
			return errAged.Error()
		}
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

// ended is the result of a command that was started, or could not be. lost is why its lease was over before.
func (j *job) ended(lost error) error {
	if j.status == nil {
		return j.notStarted(lost)
	}
	switch {
	case j.status.Cause == child.GuardDied:
		return j.conclude(outcomeInternal, exitInternal, j.failure.Error())
	case isLoss(lost):
		return j.conclude(outcomeLost, exitLost, lost.Error())
	case j.status.Cause != child.ByItself:
		return j.conclude(outcomeLost, exitLost, j.failure.Error())
	}
	return j.conclude(outcomeEnded, j.status.Code, "")
}

// endedBy is the result of a campaign whose command was asked to end by a signal: the command's, if it ended by itself,
// else that of a signal while nothing runs.
func (j *job) endedBy(sig syscall.Signal) error {
	if j.status.Cause == child.ByItself || j.status.Cause == child.GuardDied {
		return j.ended(nil)
	}
	return j.conclude(outcomeInterrupted, exitSignal+int(sig), j.failure.Error())
}

// notStarted is the result of a command that could not be started under its lease.
func (j *job) notStarted(lost error) error {
	err := j.failure
	_, interrupted := errors.AsType[signaled](err)
	switch {
	case interrupted:
		return err
	case errors.Is(err, child.ErrLate), lost != nil:
		return j.conclude(outcomeLost, exitLost, err.Error())
	case errors.Is(err, child.ErrNotRun):
		return exit(exitCannotRun, err)
	}
	return exit(exitInternal, fmt.Errorf("run %q: %w", j.name, err))
}

// isLoss reports whether a lease ended otherwise than by its holder's will.
func isLoss(lost error) bool { return lost != nil && !errors.Is(lost, leader.ErrReleased) }

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

// told are hooks that hear of each term what it was: leadOnce and the greatest age are none of the library's.
func (j *job) told(hooks leader.Hooks) leader.Hooks {
	finished := hooks.RunFinished
	if finished == nil {
		return hooks
	}
	hooks.RunFinished = func(ctx context.Context, name string, r leader.RunResult, err error) {
		if r.Outcome == leader.Elected && j.failure != nil {
			r.Outcome, r.Err = leader.ActionFailed, j.failure
		}
		if ended, ok := errors.AsType[*failed](r.Err); ok && ended.aged && ended.Cause == child.ByStop && r.Lost == nil {
			r.Lost = errAged
		}
		finished(ctx, name, r, err)
	}
	return hooks
}

// terms are hooks that report each term after which a campaign goes on.
func (j *job) terms() leader.Hooks {
	return leader.Hooks{RunFinished: func(_ context.Context, _ string, r leader.RunResult, _ error) {
		switch {
		case j.relay.ctx.Err() != nil: // it does not go on
		case isLoss(r.Lost):
			j.report(outcomeLost, exitLost, r.Lost.Error())
		case goesOn(r.Err):
			j.report(outcomeLost, exitLost, r.Err.Error())
		}
	}}
}

// conclude says what became of the run, and makes the tool end with the code.
func (j *job) conclude(what outcome, code int, why string) error {
	j.report(what, code, why)
	if code == exitOK {
		return nil
	}
	return exit(code, nil)
}

// report says what became of the run, or of a term of it. Where there is nothing to say it is for machines only.
func (j *job) report(what outcome, code int, why string) {
	switch {
	case j.tool.json:
		j.tool.printErr(runReport{Name: j.name, Outcome: what, Exit: code, Fence: j.fence, Why: why})
	case why != "":
		fmt.Fprintf(j.tool.err, "leaderctl: run %q: %s: %s\n", j.name, what, printable(why))
	}
}
