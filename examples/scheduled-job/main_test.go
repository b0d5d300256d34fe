package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/redisleader"
	"github.com/goleader/leader/examples/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

// watchdog is how long a test waits for what must happen in seconds.
const watchdog = time.Minute

func TestScheduledJob_WhenTheLeadingReplicaIsKilled_TheNextOneTakesOver(t *testing.T) {
	c := newCluster(t)
	for _, node := range []string{"a", "b", "c"} {
		c.start(node)
	}
	c.awaitEntries(4)

	dead, killed := c.killLeader()
	before := len(c.entries())
	after := c.awaitEntries(before + 4)

	next := after[before]
	t.Logf("%s died at work; %s went on %v later", dead, next.node, next.at.Sub(killed).Round(time.Millisecond))
	for _, e := range after[before:] {
		if e.node == dead {
			t.Errorf("tick %d was done by the dead replica", e.tick)
		}
	}
	check(t, after)
}

// check fails if a tick was done twice, if ticks were missing for longer than a dead leader explains, or if a fence was
// not greater than the one before it.
func check(t *testing.T, log []entry) {
	t.Helper()
	t.Logf("done ticks: %v", log)
	for i, e := range log[1:] {
		last := log[i]
		if e.tick <= last.tick {
			t.Errorf("tick %d was done by %s, and tick %d after it by %s", last.tick, last.node, e.tick, e.node)
		}
		if gap := e.at.Sub(last.at); gap > lease+period {
			t.Errorf("no tick was done for %v, want at most %v", gap, lease+period)
		}
		if e.fence <= last.fence {
			t.Errorf("fence %d of %s comes after %d of %s", e.fence, e.node, last.fence, last.node)
		}
	}
}

// entry is one tick in the replicas' list.
type entry struct {
	tick  int64
	node  string
	fence uint64
	at    time.Time
}

func (e entry) String() string { return fmt.Sprintf("%d by %s", e.tick, e.node) }

// cluster is one Redis and the replicas on it.
type cluster struct {
	t        *testing.T
	program  string
	url      string
	client   *redis.Client
	elector  leader.Elector // to ask who leads
	replicas map[string]*exec.Cmd
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	server := testserver.Redis(t)
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	elector, err := leader.New(redisleader.New(client, nil))
	if err != nil {
		t.Fatal(err)
	}
	*name = fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano()) // the server may be one that lives on
	t.Cleanup(func() { client.Del(context.WithoutCancel(t.Context()), *name+":log") })
	return &cluster{
		t: t, program: exampletest.Build(t), url: server.URL(), client: client, elector: elector,
		replicas: make(map[string]*exec.Cmd),
	}
}

// start starts a replica, which ends with the test, or by itself should the test be killed.
func (c *cluster) start(node string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), c.program, "-redis", c.url, "-name", *name, "-node", node, "-ticks", "120")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.replicas[node] = cmd
	c.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Wait() // killed by the end of the test's context
		}
		c.t.Logf("output of %s:\n%s", node, out.String())
	})
}

// killLeader kills the replica that leads with -9 while it is at work, and returns its name and the time before.
func (c *cluster) killLeader() (node string, at time.Time) {
	c.t.Helper()
	for began := time.Now(); time.Since(began) < watchdog; {
		list := c.awaitEntries(len(c.entries()) + 1)
		node, at = list[len(list)-1].node, time.Now()
		replica := c.replicas[node]
		_ = replica.Process.Kill() // the only error is that it has ended
		_ = replica.Wait()         // says that it was killed
		if c.leading() == node {
			return node, at
		}
		c.start(node) // it was done with its work, so its death would show nothing
	}
	c.t.Fatal("no leader was at work")
	return "", at
}

// leading is the replica that is at work, if any.
func (c *cluster) leading() string {
	c.t.Helper()
	state, err := c.elector.State(c.t.Context(), *name)
	if err != nil {
		c.t.Fatal(err)
	}
	return state.Node
}

// awaitEntries waits until at least n ticks are done and returns them all.
func (c *cluster) awaitEntries(n int) []entry {
	c.t.Helper()
	for began := time.Now(); time.Since(began) < watchdog; time.Sleep(5 * time.Millisecond) {
		if list := c.entries(); len(list) >= n {
			return list
		}
	}
	c.t.Fatalf("%d ticks were done, want %d: %v", len(c.entries()), n, c.entries())
	return nil
}

func (c *cluster) entries() []entry {
	c.t.Helper()
	lines, err := c.client.LRange(c.t.Context(), *name+":log", 0, -1).Result()
	if err != nil {
		c.t.Fatal(err)
	}
	list := make([]entry, len(lines))
	for i, line := range lines {
		e, at := &list[i], int64(0)
		if _, err := fmt.Sscan(line, &e.tick, &e.node, &e.fence, &at); err != nil {
			c.t.Fatalf("entry %q: %v", line, err)
		}
		e.at = time.UnixMilli(at)
	}
	return list
}
