package backendtest

import (
	"cmp"
	"testing"
	"time"
)

// retryDelay is what a take-over may take beyond the dead holder's lease, unless the store needs longer.
const retryDelay = 200 * time.Millisecond

// stopHolder stops a holding process, lets the contender replace it, and lets it go on.
func (c OverlapConfig) stopHolder(t *testing.T, test string) {
	if !canStop {
		t.Skip("skipped: processes cannot be stopped here")
	}
	address := c.Start(t)
	counter := newFencedCounter()
	p := startHolder(t, test, address, func(r report) {
		for _, h := range r {
			counter.add(h.Name, h.Fence)
		}
	})
	rival := contend(t, c.Dial(t, address), c.Lease, func(name string, fence uint64) {
		if !counter.add(name, fence) {
			t.Errorf("%s: a write of the contender, who leads by fence %d, is refused", name, fence)
		}
	})
	until(t, "the contender finds every name held", rival.scout.refusedAll)

	stopped := thisMoment()
	if err := stopProcess(p.Process); err != nil {
		t.Fatalf("stop the holder: %v", err)
	}
	c.awaitReplacement(t, rival)
	if err := continueProcess(p.Process); err != nil {
		t.Fatalf("continue the holder: %v", err)
	}
	until(t, "the contender leads every name", rival.leadsAll)
	until(t, "the holder finds every lease lost", p.lostAll)
	checkZombie(t, rival, counter)
	rival.stop()
	if err := p.end(); err != nil {
		t.Errorf("the holder's process ended with %v", err)
	}
	outcome{holder: p.holdings(), contender: rival.holdings(), from: at(stopped), since: "the stop"}.judge(t)
}

// awaitReplacement returns when the contender leads every name. A stopped process may keep the lock of an embedded
// store; the contender then has to wait for it to go on.
func (c OverlapConfig) awaitReplacement(t *testing.T, rival *contender) {
	t.Helper()
	if c.Fidelity != Embedded {
		until(t, "the contender leads every name", rival.leadsAll)
		return
	}
	for end := time.Now().Add(3 * c.Lease); !rival.leadsAll(); time.Sleep(glance) {
		if time.Now().After(end) {
			t.Log("the contender has to wait until the holder goes on, which was stopped in the middle of a write")
			return
		}
	}
}

// checkZombie waits for late writes of the holder in every name, and checks that all were refused.
func checkZombie(t *testing.T, rival *contender, counter *fencedCounter) {
	t.Helper()
	var refused int
	for i := range seeds {
		name := seedName(i)
		until(t, "the holder writes late", func() bool { return counter.count(name).refused > 0 })
		n := counter.count(name)
		refused += n.refused
		if n.accepted != 1 {
			t.Errorf("%s: %d writes with the newest fence, want the one of the contender", name, n.accepted)
		}
		if l := rival.leads(name); l == nil || l.Info().Fence != n.fence {
			t.Errorf("%s: the contender does not lead by fence %d any more", name, n.fence)
		}
	}
	t.Logf("%d late writes of the old holder were refused by their fence", refused)
}

// killHolder kills a holding process.
func (c OverlapConfig) killHolder(t *testing.T, test string) {
	address := c.Start(t)
	p := startHolder(t, test, address, func(report) {})
	rival := contend(t, c.Dial(t, address), c.Lease, idle)
	until(t, "the contender finds every name held", rival.scout.refusedAll)

	killed := thisMoment()
	if err := p.Kill(); err != nil {
		t.Fatalf("kill the holder: %v", err)
	}
	if err := p.end(); err == nil {
		t.Fatal("the holder's process ended well, want that it was killed")
	}
	until(t, "the contender leads every name", rival.leadsAll)
	rival.stop()
	o := outcome{holder: p.holdings(), contender: rival.holdings(), from: at(killed), since: "the kill"}
	o.judge(t)
	within := c.Lease + cmp.Or(c.Delay, retryDelay) + limitsOf(rival.scout).Late
	for i, wait := range o.takeovers() {
		if wait > within+rival.longestStall() {
			t.Errorf("%v: led %v after the kill, want at most %v (this process was held up for %v at most)",
				o.handovers()[i], wait, within, rival.longestStall())
		}
	}
}
