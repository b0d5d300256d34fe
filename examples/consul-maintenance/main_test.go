package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/examples/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

// atOnce is far longer than a hand-over takes, and shorter than any lease that is not released.
const atOnce = lease * 4 / 5

func TestConsulMaintenance_ThreeNodes_EnterOneAfterTheOther(t *testing.T) {
	f := newFleet(t)
	nodes := []string{"a", "b", "c"}
	var all []*exampletest.Process
	for _, id := range nodes {
		all = append(all, f.start(id, "-lasts", "500ms"))
	}
	var windows []window
	f.watchUntil(func() bool {
		return !slices.ContainsFunc(all, func(p *exampletest.Process) bool { return !p.Ended() })
	})
	for i, p := range all {
		if code := p.Wait(t); code != 0 {
			t.Errorf("%s ended with %d", nodes[i], code)
		}
		windows = append(windows, parse(t, p, nodes[i]))
	}
	slices.SortFunc(windows, func(a, b window) int { return cmp.Compare(a.fence, b.fence) })
	for i, next := range windows[1:] {
		last := windows[i]
		gap := next.entered.Sub(last.left)
		if gap < -12*time.Hour {
			gap += 24 * time.Hour // it was midnight
		}
		if gap < 0 || gap > atOnce {
			t.Errorf("%s entered %v after %s began to leave, want at once", next.node, gap, last.node)
		}
		t.Logf("%s handed over to %s in %v", last.node, next.node, gap)
	}
	if !f.seen {
		t.Error("no node was seen in maintenance")
	}
}

func TestConsulMaintenance_InterruptedInItsWindow_PutsTheNodeBackAndHandsOverAtOnce(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no process can be interrupted there")
	}
	f := newFleet(t)
	a := f.start("a", "-lasts", "1h", "-reason", "new disks")
	a.Await(t, `a +enters the window`)
	f.awaitMaintenance("new disks")
	b := f.start("b", "-lasts", "10ms")
	b.Await(t, `b +(waits for a: new disks\n|does not know)`) // a server that stalls need not tell

	interrupted := time.Now()
	a.Interrupt(t)
	b.Await(t, `b +enters the window`)
	if took := time.Since(interrupted); took > atOnce {
		t.Errorf("b entered %v after a was interrupted, want at once", took)
	}
	if code := a.Wait(t); code != 1 {
		t.Errorf("the interrupted one ended with %d, want 1", code)
	}
	if code := b.Wait(t); code != 0 {
		t.Errorf("the other one ended with %d", code)
	}
	if left := f.maintained(); len(left) != 0 {
		t.Errorf("still in maintenance: %v", left)
	}
}

// window is the time that a node was in maintenance, by what it says itself. The processes share a clock.
type window struct {
	node          string
	fence         uint64
	entered, left time.Time
}

func parse(t *testing.T, p *exampletest.Process, node string) window {
	t.Helper()
	w := window{node: node}
	in := p.Await(t, `(?m)^(\S+) +`+node+` +enters the window, fence (\d+)$`)
	out := p.Await(t, `(?m)^(\S+) +`+node+` +leaves the window$`)
	var err error
	if w.entered, err = time.Parse("15:04:05.000", in[1]); err != nil {
		t.Fatal(err)
	}
	if w.left, err = time.Parse("15:04:05.000", out[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(in[2], &w.fence); err != nil {
		t.Fatal(err)
	}
	return w
}

// fleet is some nodes, which share one agent here.
type fleet struct {
	t       *testing.T
	program string
	url     string
	name    string
	agent   *api.Agent
	seen    bool // a node in maintenance
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	url := testserver.Consul(t).URL()
	client, err := connect(url)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("test-%d", time.Now().UnixNano()) // the agent may be one that lives on
	f := &fleet{t: t, program: exampletest.Build(t), url: url, name: name, agent: client.Agent()}
	return f
}

func (f *fleet) start(node string, args ...string) *exampletest.Process {
	f.t.Helper()
	args = append([]string{"-consul", f.url, "-name", f.name, "-node", node, "-wait", "1m"}, args...)
	return exampletest.Start(f.t, f.program, args...)
}

// maintained returns why nodes are in maintenance.
func (f *fleet) maintained() (reasons []string) {
	f.t.Helper()
	checks, err := f.agent.ChecksWithFilterOpts("", new(api.QueryOptions).WithContext(context.WithoutCancel(f.t.Context())))
	if err != nil {
		f.t.Fatal(err)
	}
	for id, check := range checks {
		if strings.HasPrefix(id, api.ServiceMaintPrefix+f.name) {
			reasons = append(reasons, check.Notes)
		}
	}
	return reasons
}

// watchUntil fails the test if two nodes are in maintenance at a time.
func (f *fleet) watchUntil(over func() bool) {
	f.t.Helper()
	for end := time.Now().Add(time.Minute); !over(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatal("the nodes are not done in time")
		}
		reasons := f.maintained()
		f.seen = f.seen || len(reasons) > 0
		if len(reasons) > 1 {
			f.t.Fatalf("%d nodes are in maintenance at a time", len(reasons))
		}
	}
}

// awaitMaintenance waits until one node is in maintenance, and why.
func (f *fleet) awaitMaintenance(reason string) {
	f.t.Helper()
	f.watchUntil(func() bool { return slices.Equal(f.maintained(), []string{reason}) })
}
