package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/examples/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

// watchdog is how long a test waits for what must happen in seconds.
const watchdog = time.Minute

// lasts is how long the ticks are watched.
var lasts = flag.Duration("lasts", 20*time.Second, "how long the ticks are watched")

// skews are how far the clocks of the replicas are ahead.
var skews = map[string]time.Duration{"slow": -2 * time.Second, "right": 0, "fast": 2 * time.Second}

func TestOncePerTick_ClocksFourSecondsApart_RunsEachTickOnce(t *testing.T) {
	c := newCluster(t)
	// In the first period each replica runs another tick.
	n := int(*lasts/period) + len(skews)
	log := c.await("a run in every period", *lasts+watchdog, func(log []entry) bool { return len(runs(log, "ends")) >= n })

	checkNoneTwice(t, log)
	ticks := slices.Sorted(maps.Keys(runs(log, "begins")))
	for i, tick := range ticks[1:] {
		if step := time.Duration(tick-ticks[i]) * time.Second; step != period {
			t.Errorf("tick %d comes after %d, want each one", tick, ticks[i])
		}
	}
	var late int
	for node := range skews {
		late += strings.Count(c.output(node), "reason=AlreadyRan")
	}
	if late < n/2 {
		t.Errorf("%d times a replica came to a tick that had been run, want about two for each of %d ticks", late, n)
	}
	t.Logf("%d ticks were run, and %d times another replica came to one of them later", len(ticks), late)
}

func TestOncePerTick_RunnersAreKilled_RunsEachTickAtMostOnce(t *testing.T) {
	c := newCluster(t)
	const wanted = 4
	kills, atWork := 0, 0
	for end := time.Now().Add(watchdog); atWork < wanted; kills++ {
		if time.Now().After(end) {
			t.Fatalf("%d of %d kills hit a replica at work, want %d", atWork, kills, wanted)
		}
		seen := len(c.entries())
		log := c.await("a run begins", watchdog, func(log []entry) bool {
			return len(log) > seen && log[len(log)-1].what == "begins"
		})
		runner := log[len(log)-1]
		c.kill(runner.node)
		if runs(c.entries(), "ends")[runner.tick] == 0 {
			atWork++
		}
		c.start(runner.node)
	}
	// The replicas with slower clocks come to the ticks of the killed ones later.
	seen := len(c.entries())
	log := c.await("life goes on", watchdog, func(log []entry) bool { return len(runs(log[seen:], "ends")) >= 3 })
	checkNoneTwice(t, log)
	t.Logf("%d runners were killed, %d of them at work; %d ticks were run", kills, atWork, len(runs(log, "begins")))
}

// checkNoneTwice fails for each tick that was run more than once.
func checkNoneTwice(t *testing.T, log []entry) {
	t.Helper()
	for tick, n := range runs(log, "begins") {
		if n > 1 {
			t.Errorf("tick %d was run %d times", tick, n)
		}
	}
}

// entry is one line of the replicas' list.
type entry struct {
	tick  int64
	what  string
	node  string
	fence uint64
}

// runs counts for each tick the runs that began, or those that ended.
func runs(log []entry, what string) map[int64]int {
	counts := make(map[int64]int)
	for _, e := range log {
		if e.what == what {
			counts[e.tick]++
		}
	}
	return counts
}

// cluster is one Redis and the replicas on it.
type cluster struct {
	t        *testing.T
	program  string
	url      string
	name     string
	dir      string // for the outputs
	client   *redis.Client
	replicas map[string]*exec.Cmd
}

// newCluster starts a replica for each clock.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	server := testserver.Redis(t)
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	name := fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano()) // the server may be one that lives on
	t.Cleanup(func() { client.Del(context.WithoutCancel(t.Context()), name+":log") })
	c := &cluster{
		t: t, program: exampletest.Build(t), url: server.URL(), name: name, dir: t.TempDir(), client: client,
		replicas: make(map[string]*exec.Cmd),
	}
	t.Cleanup(func() {
		for node := range skews {
			t.Logf("output of %s:\n%s", node, c.output(node))
		}
	})
	for node := range skews {
		c.start(node)
	}
	return c
}

// start starts a replica, which ends with the test, or by itself should the test be killed.
func (c *cluster) start(node string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), c.program, "-redis", c.url, "-name", c.name, "-node", node,
		"-skew", skews[node].String(), "-ticks", "300")
	out, err := os.OpenFile(c.outputFile(node), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer out.Close() // the replica has its own
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.replicas[node] = cmd
	c.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Wait() // killed by the end of the test's context
		}
	})
}

func (c *cluster) outputFile(node string) string { return filepath.Join(c.dir, node+".log") }

// output is what all replicas of that name have printed.
func (c *cluster) output(node string) string {
	c.t.Helper()
	out, err := os.ReadFile(c.outputFile(node))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(out)
}

// kill kills a replica with -9.
func (c *cluster) kill(node string) {
	c.t.Helper()
	if err := c.replicas[node].Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	_ = c.replicas[node].Wait() // says that it was killed
}

// await waits until the list is as wanted, and returns it.
func (c *cluster) await(what string, patience time.Duration, wanted func(log []entry) bool) []entry {
	c.t.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) {
		if log := c.entries(); wanted(log) {
			return log
		}
	}
	c.t.Fatalf("not in time: %s: %v", what, c.entries())
	return nil
}

func (c *cluster) entries() []entry {
	c.t.Helper()
	lines, err := c.client.LRange(c.t.Context(), c.name+":log", 0, -1).Result()
	if err != nil {
		c.t.Fatal(err)
	}
	log := make([]entry, len(lines))
	for i, line := range lines {
		e := &log[i]
		if _, err := fmt.Sscan(line, &e.tick, &e.what, &e.node, &e.fence); err != nil {
			c.t.Fatalf("entry %q: %v", line, err)
		}
	}
	return log
}
