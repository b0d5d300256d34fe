package tickstest

import (
	"bytes"
	"database/sql"
	"os"
	"os/exec"
	"testing"
	"time"
)

const (
	// watchdog is how long a test waits for what must happen in seconds.
	watchdog = time.Minute
	// poll is how often the list is looked at.
	poll = 20 * time.Millisecond
	// stalled is how long a look at the list takes on a machine that stands still.
	stalled = 500 * time.Millisecond
)

// cluster is the replicas of a test and their list of runs.
type cluster struct {
	t        *testing.T
	dir      string
	work     time.Duration
	list     *sql.DB
	replicas map[string]*exec.Cmd
}

// entry is a line of the list.
type entry struct {
	fire, noted time.Time
	what, node  string
}

func newCluster(t *testing.T, work time.Duration) *cluster {
	t.Helper()
	dir := t.TempDir()
	list, err := openList(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { list.Close() })
	_, err = list.ExecContext(t.Context(), "CREATE TABLE runs (fire INTEGER, what TEXT, node TEXT, noted INTEGER)")
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{t: t, dir: dir, work: work, list: list, replicas: make(map[string]*exec.Cmd)}
}

// start starts a replica, which ends with the test.
func (c *cluster) start(node string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), os.Args[0]) //nolint:gosec // this very binary
	cmd.Env = append(os.Environ(), keyDir+"="+c.dir, keyNode+"="+node, keyWork+"="+c.work.String())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.replicas[node] = cmd
	c.t.Cleanup(func() {
		_ = in.Close()
		if cmd.ProcessState == nil {
			_ = cmd.Wait() // killed by the end of the test's context
		}
		c.t.Logf("output of %s:\n%s", node, out.String())
	})
}

// kill kills a replica with -9.
func (c *cluster) kill(node string) {
	c.t.Helper()
	if err := c.replicas[node].Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	_ = c.replicas[node].Wait() // says that it was killed
}

// startThree starts three replicas, one 300 ms after the other, and waits until all are ready.
func (c *cluster) startThree() {
	c.t.Helper()
	for i, node := range []string{"a", "b", "c"} {
		if i > 0 {
			time.Sleep(300 * time.Millisecond) //nolint:forbidigo // that is how far apart they are to be
		}
		c.start(node)
	}
	c.await("three replicas are ready", func(log []entry) bool { return count(log, "ready") == len(c.replicas) })
}

// await waits until the list is as wanted. It returns the list, and whether the machine stood still meanwhile.
func (c *cluster) await(what string, wanted func(log []entry) bool) (log []entry, stood bool) {
	c.t.Helper()
	last := time.Now()
	for end := last.Add(watchdog); last.Before(end); {
		if log = c.entries(); wanted(log) {
			return log, stood
		}
		time.Sleep(poll) //nolint:forbidigo // the list tells nobody
		now := time.Now()
		stood = stood || now.Sub(last) > stalled
		last = now
	}
	c.t.Fatalf("not in time: %s: %v", what, log)
	return nil, false
}

func (c *cluster) entries() (log []entry) {
	c.t.Helper()
	rows, err := c.list.QueryContext(c.t.Context(), "SELECT fire, what, node, noted FROM runs ORDER BY rowid")
	if err != nil {
		c.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e entry
		var fire, noted int64
		if err := rows.Scan(&fire, &e.what, &e.node, &noted); err != nil {
			c.t.Fatal(err)
		}
		e.fire, e.noted = time.UnixMilli(fire), time.UnixMilli(noted)
		log = append(log, e)
	}
	if err := rows.Err(); err != nil {
		c.t.Fatal(err)
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
