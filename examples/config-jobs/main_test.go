package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/examples/internal/exampletest"
)

const (
	// watchdog is how long a test waits for what must happen in seconds.
	watchdog = time.Minute
	period   = 2 * time.Second // of the report
	pause    = 3 * time.Second // of the sync
	// stalled is how long a look at the list takes on a machine that stands still.
	stalled = 500 * time.Millisecond
	report  = "config-jobs:report"
)

func TestConfigJobs_ThreeReplicas_RunEachTickOnce(t *testing.T) {
	const wanted = 5
	c := newCluster(t, "20ms")
	for range 3 {
		from := time.Now().Truncate(period).Add(period)
		until := from.Add(wanted * period)
		log, stood := c.await("the tick after the window", func(log []entry) bool {
			return slices.ContainsFunc(log, func(e entry) bool { return e.job == report && !e.fire.Before(until) })
		})
		checkNoneTwice(t, log)
		checkSync(t, log)
		begun, ended := between(log, "begins", from, until), between(log, "ends", from, until)
		if stood && len(ended) < wanted {
			t.Logf("the machine stood still for over %v; again", stalled)
			continue
		}
		if len(begun) != wanted || !slices.EqualFunc(begun, ended, time.Time.Equal) {
			t.Errorf("begun %v\nended %v\nwant %d runs in ten seconds from %v on", begun, ended, wanted, from)
		}
		return
	}
	t.Fatal("the machine stood still in every window: nothing was shown")
}

func TestConfigJobs_AReplicaIsKilledInMidRun_NoTickTwiceAndNoneMissingAfterTheNext(t *testing.T) {
	const wanted = 4
	c := newCluster(t, "700ms")
	for range 5 {
		killed, ok := c.killAtWork()
		if !ok {
			continue
		}
		from := killed.Add(2 * period)
		until := from.Add(wanted * period)
		log, stood := c.await("life goes on", func(log []entry) bool {
			return slices.ContainsFunc(log, func(e entry) bool { return e.job == report && !e.fire.Before(until) })
		})
		checkNoneTwice(t, log)
		begun := between(log, "begins", from, until)
		if stood && len(begun) < wanted {
			t.Logf("the machine stood still for over %v; again", stalled)
			continue
		}
		if len(begun) != wanted {
			t.Errorf("killed in the run for %v, then %v; want %d runs from %v on", killed, begun, wanted, from)
		}
		return
	}
	t.Fatal("nothing was shown: no replica was killed at work on a machine that did not stand still")
}

func TestConfigJobs_AWrongConfiguration_StartsNoneOfTheJobs(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "jobs.yaml")
	err := os.WriteFile(file, []byte(`
service: config-jobs
jobs:
  - name: report
    every: 100ms
  - name: cleanup
    cron: at midnight
  - name: sync
    delay: 3s
    leese: 1s
  - name: export
    every: 1h
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONFIG_WAIT", "long")
	p := exampletest.Start(t, exampletest.Build(t), "-config", file, "-dir", dir)
	if code := p.Wait(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{
		`all jobs: wait: "long" is no duration`, `job "cleanup": cron "at midnight"`, `job "sync": "leese" is no setting`,
		`job "export" has no action`,
	} {
		if !strings.Contains(p.Output(), want) {
			t.Errorf("the output does not say %q", want)
		}
	}
	if log := entries(t, openDB(t, dir)); len(log) != 0 {
		t.Errorf("ran %v, want nothing", log)
	}
}

func TestConfigJobs_Interrupted_EndsAfterItsJobs(t *testing.T) {
	dir := t.TempDir()
	p := exampletest.Start(t, exampletest.Build(t), "-config", "jobs.yaml", "-dir", dir)
	p.Await(t, `job=config-jobs:report .*outcome=Elected`)
	p.Interrupt(t)
	if code := p.Wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	log := entries(t, openDB(t, dir))
	if begun, ended := count(log, "begins"), count(log, "ends"); begun == 0 || begun != ended {
		t.Errorf("%d runs begun, %d ended", begun, ended)
	}
}

// entry is a line of the replicas' list.
type entry struct {
	job, what, node string
	fire, noted     time.Time
}

// cluster is three replicas and their list.
type cluster struct {
	t        *testing.T
	program  string
	dir      string
	work     string
	list     *sql.DB
	replicas map[string]*exampletest.Process
}

// newCluster starts three replicas, 300 ms apart, and waits until they run.
func newCluster(t *testing.T, work string) *cluster {
	t.Helper()
	c := &cluster{
		t: t, program: exampletest.Build(t), dir: t.TempDir(), work: work, replicas: make(map[string]*exampletest.Process),
	}
	for i, node := range []string{"a", "b", "c"} {
		if i > 0 {
			time.Sleep(300 * time.Millisecond) // that is how far apart they are to be
		}
		c.start(node)
	}
	for _, p := range c.replicas {
		p.Await(t, "running")
	}
	c.list = openDB(t, c.dir)
	return c
}

func (c *cluster) start(node string) {
	c.t.Helper()
	c.replicas[node] = exampletest.Start(c.t, c.program, "-config", "jobs.yaml", "-dir", c.dir, "-node", node, "-work", c.work)
}

// killAtWork kills a replica while it works on the report, and returns the tick. If it was done with its work, its death
// would show nothing. Another one takes its place.
func (c *cluster) killAtWork() (fire time.Time, ok bool) {
	c.t.Helper()
	seen := count(entries(c.t, c.list), "begins")
	var victim entry
	c.await("a report begins", func(log []entry) bool {
		if victim = log[len(log)-1]; count(log, "begins") <= seen {
			return false
		}
		return victim.job == report && victim.what == "begins"
	})
	c.replicas[victim.node].Kill(c.t)
	ended := between(entries(c.t, c.list), "ends", victim.fire, victim.fire.Add(period))
	c.start(victim.node)
	return victim.fire, len(ended) == 0
}

// await waits until the list is as wanted. It returns the list, and whether the machine stood still meanwhile.
func (c *cluster) await(what string, wanted func(log []entry) bool) (log []entry, stood bool) {
	c.t.Helper()
	last := time.Now()
	for end := last.Add(watchdog); last.Before(end); {
		if log = entries(c.t, c.list); len(log) > 0 && wanted(log) {
			return log, stood
		}
		time.Sleep(50 * time.Millisecond)
		now := time.Now()
		stood = stood || now.Sub(last) > stalled
		last = now
	}
	c.t.Fatalf("not in time: %s: %v", what, log)
	return nil, false
}

func openDB(t *testing.T, dir string) *sql.DB {
	t.Helper()
	list, err := openList(t.Context(), filepath.Join(dir, "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { list.Close() })
	return list.DB
}

func entries(t *testing.T, list *sql.DB) (log []entry) {
	t.Helper()
	rows, err := list.QueryContext(t.Context(), "SELECT job, fire, what, node, noted FROM runs ORDER BY rowid")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e entry
		var fire, noted int64
		if err := rows.Scan(&e.job, &fire, &e.what, &e.node, &noted); err != nil {
			t.Fatal(err)
		}
		e.fire, e.noted = time.UnixMilli(fire), time.UnixMilli(noted)
		log = append(log, e)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return log
}

func count(log []entry, what string) (n int) {
	for _, e := range log {
		if e.what == what {
			n++
		}
	}
	return n
}

// between are the ticks of the report in that window, in order.
func between(log []entry, what string, from, until time.Time) (fires []time.Time) {
	for _, e := range log {
		if e.job == report && e.what == what && !e.fire.Before(from) && e.fire.Before(until) {
			fires = append(fires, e.fire)
		}
	}
	slices.SortFunc(fires, time.Time.Compare)
	return fires
}

// checkNoneTwice fails for each tick of a job that was begun more than once.
func checkNoneTwice(t *testing.T, log []entry) {
	t.Helper()
	runs := make(map[entry]int)
	for _, e := range log {
		tick := entry{job: e.job, fire: e.fire}
		if e.what != "begins" || e.job == "config-jobs:sync" {
			continue
		}
		if runs[tick]++; runs[tick] > 1 {
			t.Errorf("%s was begun %d times for %v", e.job, runs[tick], e.fire)
		}
	}
}

// checkSync fails if the job with a pause began before its pause was over.
func checkSync(t *testing.T, log []entry) {
	t.Helper()
	var last entry
	for _, e := range log {
		if e.job != "config-jobs:sync" {
			continue
		}
		if e.what == "begins" && last.what != "" {
			if got := e.noted.Sub(last.noted); last.what != "ends" || got < pause-100*time.Millisecond {
				t.Errorf("sync began on %s %v after it %s on %s, want %v after its end", e.node, got, last.what, last.node, pause)
			}
		}
		last = e
	}
}
