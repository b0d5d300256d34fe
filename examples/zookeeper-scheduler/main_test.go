package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/zkleader"
	"github.com/goleader/leader/examples/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

// watchdog is how long a test waits for what must happen in seconds.
const watchdog = time.Minute

func TestZookeeperScheduler_TheLeaderIsKilled_TheNextOneCatchesUp(t *testing.T) {
	const tick = 200 * time.Millisecond
	k := newKeeper(t)
	program := exampletest.Build(t)
	schedulers := make(map[string]*exampletest.Process)
	for _, id := range []string{"a", "b", "c"} {
		schedulers[id] = exampletest.Start(t, program, "-zookeeper", k.addr, "-name", k.name, "-node", id,
			"-every", tick.String(), "-lease", "2s", "-lives", "2m")
	}
	before := k.awaitJobs(5)
	dead := before[len(before)-1]
	schedulers[dead.node].Kill(t)
	killed := time.Now()
	// Workers take jobs away. That must not bring a tick back.
	k.deleteJob(before[0].tick)

	var all []job
	for all = before; all[len(all)-1].tick <= killed.UnixMilli()+tick.Milliseconds(); {
		all = k.awaitJobs(len(all) + 1)
	}
	next := all[len(all)-1]
	if next.node == dead.node || next.fence <= dead.fence {
		t.Errorf("%s went on with fence %d, after %s had %d", next.node, next.fence, dead.node, dead.fence)
	}
	if all[0].tick == before[0].tick {
		t.Errorf("tick %d got another job after its first one was taken", before[0].tick)
	}
	for i, j := range all[1:] {
		if step := time.Duration(j.tick-all[i].tick) * time.Millisecond; step != tick {
			t.Errorf("job %d comes after %d, want one for each tick", j.tick, all[i].tick)
		}
		if j.fence < all[i].fence {
			t.Errorf("job %d has fence %d, after %d", j.tick, j.fence, all[i].fence)
		}
	}
	schedulers[next.node].Await(t, `takes over after tick \d+\n`)
	t.Logf("%d jobs without a gap; %s caught up after %s", len(all), next.node, dead.node)
}

func TestSchedule_ALaterLeaderHasTakenIt_RefusesTheFormerOne(t *testing.T) {
	k := newKeeper(t)
	b := zkleader.New([]string{k.addr}, nil)
	defer b.Close()
	elector, err := leader.New(b)
	if err != nil {
		t.Fatal(err)
	}
	acquire := func() *leader.Lease {
		l, err := elector.Acquire(t.Context(), k.name, leader.WithWaitTime(watchdog)) // it tries again
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l
	}
	former, later := acquire(), acquire()
	s := newSchedule(k.conn, k.name)
	start := time.UnixMilli(1_000_000)
	at, err := s.take(former, start)
	if err != nil {
		t.Fatal(err)
	}
	if at, err = s.add(former, at, start.Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	now, err := s.take(later, start.Add(time.Hour))
	if err != nil || !now.tick.Equal(at.tick) {
		t.Fatalf("the later leader goes on after %v, %v; want %v", now.tick, err, at.tick)
	}
	if _, err := s.add(former, at, start.Add(time.Second)); !errors.Is(err, errStale) {
		t.Errorf("a job of the former leader: %v, want %v", err, errStale)
	}
	if _, err := s.take(former, start); !errors.Is(err, errStale) {
		t.Errorf("the former leader took it over: %v, want %v", err, errStale)
	}
	if _, err := s.add(later, now, start.Add(time.Second)); err != nil {
		t.Errorf("a job of the later leader: %v", err)
	}
}

// job is what the schedulers made for a tick.
type job struct {
	tick  int64 // in ms
	fence uint64
	node  string
}

// keeper is a ZooKeeper, and the schedule of one test in it.
type keeper struct {
	t    *testing.T
	addr string
	name string
	conn *zk.Conn
}

func newKeeper(t *testing.T) keeper {
	t.Helper()
	addr := testserver.ZooKeeper(t).Addr()
	conn, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return keeper{t, addr, fmt.Sprintf("test-%d", time.Now().UnixNano()), conn} // the server may be one that lives on
}

// jobs returns the jobs by their ticks.
func (k keeper) jobs() (all []job) {
	k.t.Helper()
	jobs := newSchedule(k.conn, k.name).jobs
	names, _, err := k.conn.Children(jobs)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		k.t.Fatal(err)
	}
	slices.SortFunc(names, func(a, b string) int { return len(a) - len(b) + strings.Compare(a, b) })
	for _, name := range names {
		data, _, err := k.conn.Get(jobs + "/" + name)
		if err != nil {
			k.t.Fatal(err)
		}
		var j job
		if _, err := fmt.Sscan(string(data), &j.tick, &j.fence, &j.node); err != nil || strconv.FormatInt(j.tick, 10) != name {
			k.t.Fatalf("job %s: %q, %v", name, data, err)
		}
		all = append(all, j)
	}
	return all
}

// awaitJobs waits until there are n jobs, and returns all.
func (k keeper) awaitJobs(n int) []job {
	k.t.Helper()
	for end := time.Now().Add(watchdog); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if all := k.jobs(); len(all) >= n {
			return all
		}
	}
	k.t.Fatalf("there are not %d jobs: %v", n, k.jobs())
	return nil
}

func (k keeper) deleteJob(tick int64) {
	k.t.Helper()
	if err := k.conn.Delete(newSchedule(k.conn, k.name).jobs+"/"+strconv.FormatInt(tick, 10), -1); err != nil {
		k.t.Fatal(err)
	}
}
