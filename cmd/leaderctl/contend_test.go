//go:build unix

package main_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/internal/testserver"
)

// What two tools go through that contend for each name. They wait most of the time, for leases of killed ones to end, so
// that many names cost little more than one. A command is killed a tenth and a twentieth of its lease before others may
// lead: that is what a busy machine may be late.
const (
	contendNames  = 25
	contendRounds = 1000 / contendNames / 2 // of each tool and name
	contendLease  = 3 * time.Second
	contendWait   = 30 * time.Second
)

// contest is a name for which two tools contend.
type contest struct {
	folder string
	stores [2]string // of each side
	counts *contestCounts
}

type contestCounts struct {
	rounds, begun, killedTools, killedJobs, stopped, freezes atomic.Int64
	codes                                                    sync.Map // exit code → *atomic.Int64
}

func (c *contestCounts) code(code int) {
	n, _ := c.codes.LoadOrStore(code, new(atomic.Int64))
	n.(*atomic.Int64).Add(1) //nolint:forcetypeassert // nothing else is stored
}

func TestRun_CommandsNeverOverlapAndNeverOutliveTheirTool(t *testing.T) {
	t.Parallel()
	counts := new(contestCounts)
	contests := make([]*contest, contendNames)
	ctx, cancel := context.WithCancel(t.Context())
	var freezers sync.WaitGroup
	redis := testserver.Redis(t)
	var sides [2]*netfault.Proxy
	for i := range sides {
		p, err := netfault.Listen(t.Context(), redis.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		sides[i] = p
	}
	freezers.Go(func() { freezeConnections(ctx, sides, counts) })
	for i := range contests {
		c := &contest{folder: t.TempDir(), counts: counts}
		c.stores = [2]string{"redis://" + sides[0].Addr(), "redis://" + sides[1].Addr()}
		if i%3 == 2 {
			file := filepath.Join(t.TempDir(), "leader.db")
			c.stores = [2]string{"sqlite:" + file, "sqlite:" + file}
			freezers.Go(func() { lockFile(ctx, t, file, counts) })
		}
		contests[i] = c
	}
	var all sync.WaitGroup
	for i, c := range contests {
		for side := range 2 {
			all.Go(func() { c.contend(t, "job"+strconv.Itoa(i), side) })
		}
	}
	all.Wait()
	cancel()
	freezers.Wait()
	for _, c := range contests {
		c.check(t)
	}
	counts.report(t)
}

// freezeConnections freezes one side after the other, for about a lease.
func freezeConnections(ctx context.Context, sides [2]*netfault.Proxy, counts *contestCounts) {
	for i := 0; ; i++ {
		if !pause(ctx, 4*time.Second) {
			return
		}
		counts.freezes.Add(1)
		sides[i%2].Freeze()
		pause(ctx, contendLease/2+rand.N(contendLease))
		sides[i%2].Thaw()
	}
}

// lockFile keeps everybody else from writing to the file, for about a lease.
func lockFile(ctx context.Context, t *testing.T, file string, counts *contestCounts) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(2000)")
	if err != nil {
		t.Error(err)
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for pause(ctx, 5*time.Second) {
		if _, err := db.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
			continue // somebody else writes
		}
		counts.freezes.Add(1)
		pause(ctx, contendLease/2+rand.N(contendLease))
		if _, err := db.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); err != nil {
			t.Error(err)
		}
	}
}

// pause waits, and reports false if ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (c *contest) contend(t *testing.T, name string, side int) {
	for round := range contendRounds {
		c.round(t, name, side, fmt.Sprintf("%d.%d", side, round))
		if t.Failed() {
			return
		}
	}
}

// round runs the tool once, does something to it, and looks for survivors.
func (c *contest) round(t *testing.T, name string, side int, mark string) {
	dice := rand.N(100)
	o := &jobFlags{folder: c.folder, mark: mark, work: rand.N(60 * time.Millisecond), stubborn: dice%2 == 0}
	if dice < 30 {
		o.work, o.fork = 3*contendLease, dice%3 == 0
	}
	args := []string{
		"run", name, "--node", mark, "--lease", contendLease.String(), "--wait", contendWait.String(), "--history", "none", "--",
	}
	v := tool(t, []string{"LEADER_STORE=" + c.stores[side]}, append(args, job(o)...)...)
	if err := v.Start(); err != nil {
		t.Error(err)
		return
	}
	c.counts.rounds.Add(1)
	ended := make(chan struct{})
	harm := make(chan int, 1)
	go func() { harm <- c.harm(v, o, dice, ended) }()
	_ = v.Wait() // its code says it
	close(ended)
	group := <-harm
	code := v.ProcessState.ExitCode()
	c.counts.code(code)
	killed := code == -1
	if !killed && code != 0 && code != 114 && code != 115 && code != 116 && code != 128+9 && code != 128+15 {
		t.Errorf("round %s of %s ended with %d\n%s", mark, name, code, v.errs.String())
	}
	if group == 0 {
		group = o.started(ended) // it may have begun last
	}
	if group == 0 {
		return
	}
	c.counts.begun.Add(1)
	if killed { // by us: its guard is about to end the group
		for end := time.Now().Add(contendLease); len(alive(group)) > 0 && time.Now().Before(end); {
			time.Sleep(2 * time.Millisecond)
		}
	}
	if left := alive(group); len(left) > 0 {
		t.Errorf("round %s of %s ended with %d and left %q\n%s", mark, name, code, left, v.errs.String())
	}
}

// harm does to a tool whose command runs what the dice say, and returns the command's group, 0 if it did not start.
func (c *contest) harm(v *invocation, o *jobFlags, dice int, ended <-chan struct{}) int {
	group := o.started(ended)
	if group == 0 {
		return 0
	}
	select {
	case <-ended:
		return group
	case <-time.After(rand.N(100 * time.Millisecond)):
	}
	switch {
	case dice < 12:
		c.counts.killedTools.Add(1)
		_ = v.Process.Kill()
	case dice < 20:
		c.counts.killedJobs.Add(1)
		_ = syscall.Kill(group, syscall.SIGKILL)
	case dice < 24:
		c.counts.stopped.Add(1)
		_ = v.Process.Signal(syscall.SIGSTOP)
		select {
		case <-ended:
		case <-time.After(contendLease + rand.N(contendLease/2)):
			_ = v.Process.Signal(syscall.SIGCONT)
		}
	case dice < 30: // a long one: for the freeze, and else ended from outside
		select {
		case <-ended:
		case <-time.After(rand.N(contendLease)):
			_ = v.Process.Signal(syscall.SIGTERM)
			if o.stubborn {
				_ = syscall.Kill(group, syscall.SIGKILL)
			}
		}
	}
	return group
}

// check reads what the commands wrote down.
func (c *contest) check(t *testing.T) {
	var last uint64
	sides := map[byte]int{}
	for _, e := range readJournal(t, c.folder) {
		switch e.what {
		case "OVERLAP":
			t.Errorf("%s: the command of round %s, fence %d, met another one", c.stores[0], e.mark, e.fence)
		case "begin":
			sides[e.mark[0]]++
			if e.fence <= last {
				t.Errorf("%s: fence %d of round %s came after %d", c.stores[0], e.fence, e.mark, last)
			}
			last = e.fence
		}
	}
	if sides['0'] == 0 || sides['1'] == 0 {
		t.Errorf("%s: one side never led: %v", c.stores[0], sides)
	}
}

// report fails if what was to be tried was not.
func (c *contestCounts) report(t *testing.T) {
	codes := map[int]int64{}
	c.codes.Range(func(code, n any) bool {
		codes[code.(int)] = n.(*atomic.Int64).Load() //nolint:forcetypeassert // nothing else is stored
		return true
	})
	t.Logf("%d rounds, %d begun, %d tools killed, %d commands killed, %d tools stopped, %d freezes, exit codes %v",
		c.rounds.Load(), c.begun.Load(), c.killedTools.Load(), c.killedJobs.Load(), c.stopped.Load(), c.freezes.Load(), codes)
	if t.Failed() {
		return
	}
	want := int64(contendNames * contendRounds * 2)
	if c.rounds.Load() != want || c.begun.Load() < want/2 || c.killedTools.Load() < want/50 ||
		c.killedJobs.Load() < want/50 || c.stopped.Load() < want/200 || c.freezes.Load() < 3 {
		t.Error("too little of it happened")
	}
}
