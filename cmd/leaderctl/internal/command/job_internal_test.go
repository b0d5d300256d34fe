//go:build unix

package command

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/cmd/leaderctl/internal/child"
)

// watchdog is how long anything may take.
const watchdog = 30 * time.Second

func TestMain(m *testing.M) {
	if child.IsGuard() {
		os.Exit(child.Guard())
	}
	os.Exit(m.Run())
}

// testJob is a job with a shell script, and with an elector of its own on a store. What it says goes to the buffer.
func testJob(t *testing.T, store *local.Backend, script string) (j *job, e *leader.Single, errs *bytes.Buffer) {
	t.Helper()
	errs = new(bytes.Buffer)
	relay := newRelay(t.Context())
	t.Cleanup(relay.close)
	j = &job{
		tool: &tool{err: errs}, relay: relay, name: "job", renewed: make(chan struct{}, 1),
		command: child.Command{
			Path: "/bin/sh", Args: []string{"sh", "-c", script}, Grace: 10 * watchdog, Reserve: time.Second,
		},
	}
	e, err := leader.New(store, leader.WithLeaseTime(time.Hour), leader.WithHooks(j.hooks()))
	if err != nil {
		t.Fatal(err)
	}
	return j, e, errs
}

func TestJob_ALossKillsACommandThatIsAboutToEndBecauseOfItsAge(t *testing.T) {
	t.Parallel()
	store, heard := local.New(), filepath.Join(t.TempDir(), "heard")
	j, e, _ := testJob(t, store, `trap ': > `+heard+`' TERM; while :; do sleep 0.02; done`)
	j.maxHold = 5 * time.Second
	leases := make(chan *leader.Lease, 1)
	result := make(chan leader.RunResult, 1)
	go func() {
		r, _ := e.RunIfLeader(t.Context(), j.name, func(ctx context.Context) error {
			lease, _ := leader.LeaseFrom(ctx)
			leases <- lease
			return j.lead(ctx)
		})
		result <- r
	}()
	lease := <-leases
	for end := time.Now().Add(watchdog); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(heard); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the command was not asked to end")
		}
	}
	if err := store.Break(t.Context(), lease.Info().Key, lease.Info().Fence); err != nil {
		t.Fatal(err)
	}
	if err := lease.Extend(t.Context(), time.Hour); !errors.Is(err, leader.ErrTakenOver) {
		t.Errorf("the lease is not lost: %v", err)
	}
	select {
	case r := <-result:
		if !errors.Is(r.Lost, leader.ErrTakenOver) || j.status.Code != 128+int(syscall.SIGKILL) {
			t.Errorf("%v, %+v", r, j.status)
		}
	case <-time.After(watchdog):
		t.Fatal("the command is given all of its grace")
	}
}

// interrupting is a runner that gets a signal just before its action starts.
type interrupting struct {
	runner

	j *job
}

func (i interrupting) RunIfLeader(
	ctx context.Context, name string, action leader.Action, opts ...leader.RunOption,
) (leader.RunResult, error) {
	return i.runner.RunIfLeader(ctx, name, func(ctx context.Context) error {
		i.j.relay.cancel(signaled{syscall.SIGTERM})
		return action(ctx)
	}, opts...)
}

func TestJob_ASignalBeforeTheStartGivesTheRunKeyBack(t *testing.T) {
	t.Parallel()
	store, flags := local.New(), &runFlags{runKey: "k", keep: time.Hour}
	j, e, _ := testJob(t, store, "exit 4")
	if code := codeOf(j.once(interrupting{e, j}, flags)); code != 128+15 {
		t.Errorf("%d", code)
	}
	for _, want := range []int{4, exitSkipped} {
		j, e, _ = testJob(t, store, "exit 4")
		if code := codeOf(j.once(e, flags)); code != want {
			t.Errorf("%d, want %d", code, want)
		}
	}
}

func TestJob_ACampaignTellsOfATermThatEndedTooEarly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{&failed{child.Status{Code: 143, Cause: child.ByDeadline}, false}, "could not be renewed in time"},
		{&failed{child.Status{Code: 143, Cause: child.ByStop}, true}, "held longer than allowed"},
		{child.ErrLate, "before the command could be started"},
	} {
		j, _, errs := testJob(t, local.New(), "")
		j.terms().RunFinished(t.Context(), "job", leader.RunResult{Outcome: leader.ActionFailed, Err: c.err}, nil)
		if text := errs.String(); !strings.HasPrefix(text, `leaderctl: run "job": lost: `) || !strings.Contains(text, c.want) {
			t.Errorf("it says %q, want %q", text, c.want)
		}
	}
}

func TestRunFlags_AGraceOfZeroIsOne(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"": 10 * time.Second, "0s": 0, "5s": 5 * time.Second} {
		var o runFlags
		if text != "" {
			if err := o.grace.Set(text); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := o.graceWithin(time.Minute); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}
