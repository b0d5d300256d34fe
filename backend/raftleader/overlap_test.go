//go:build unix

package raftleader

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/backendtest/netfault"
)

const (
	overlapLease     = 1500 * time.Millisecond
	longOverlapLease = 6 * overlapLease // outlives a fault of 2 s, and an election
	overlapElection  = 700 * time.Millisecond
)

// The seats of a trio: the holder's node, the contender's, and one in a process of its own. anySeat is the first of the
// two that this process may take.
const (
	holderSeat = iota
	contenderSeat
	thirdSeat
	anySeat
)

// trio is a cluster of three nodes on disk, of which the first two are in the processes that elect.
type trio struct {
	*links

	dir         string
	third       *process
	holderLeads bool // from the first
}

// newTrio founds a cluster and starts its third node.
func newTrio(t testing.TB, holderLeads bool) *trio {
	t.Helper()
	dir := t.TempDir()
	r := &trio{dir: dir, links: found(t, dir).links, holderLeads: holderLeads}
	r.third = startNode(t, r.orders(thirdSeat))
	return r
}

// found founds a cluster in a folder, and closes its nodes when all of them have a vote.
func found(t testing.TB, dir string) *crew {
	t.Helper()
	c := newCrewIn(t, dir)
	until(t, "every node is a member", func() bool {
		i := c.leading()
		if i < 0 {
			return false
		}
		b := c.nodes[i].Load()
		return b.voters() == crewSize && b.raft.AppliedIndex() == b.raft.LastIndex()
	})
	for i := range c.nodes {
		if err := c.nodes[i].Swap(nil).Close(); err != nil {
			t.Error(err)
		}
	}
	return c
}

// orders are those of the node of a seat.
func (r *trio) orders(seat int) orders {
	o := orders{
		Addr: r.addrs[seat], Peers: r.addrs, Dir: filepath.Join(r.dir, strconv.Itoa(seat)), Election: overlapElection,
		Ways: map[string]string{}, Lead: r.holderLeads && seat == holderSeat,
	}
	if r.holderLeads && seat == thirdSeat {
		o.YieldTo = r.addrs[holderSeat]
	}
	for _, a := range r.addrs {
		if a != o.Addr {
			o.Ways[a] = r.way(seat, a)
		}
	}
	return o
}

// address is what [dialSeat] needs: the orders of the seats that it may take.
func (r *trio) address(t testing.TB, seat int) string {
	t.Helper()
	var seats []orders
	for _, s := range []int{holderSeat, contenderSeat} {
		if seat == anySeat || seat == s {
			seats = append(seats, r.orders(s))
		}
	}
	text, err := json.Marshal(seats)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// seated has the nodes of this process by their addresses.
var seated sync.Map

// dialSeat starts the node of a seat in this process. If it may choose, the child of a test takes the first one, and the
// test itself first the second one.
func dialSeat(t testing.TB, address string) backend.Driver {
	t.Helper()
	var seats []orders
	if err := json.Unmarshal([]byte(address), &seats); err != nil {
		t.Fatal(err)
	}
	o := seats[len(seats)-1]
	if _, taken := seated.Load(o.Addr); taken || os.Getenv("LEADER_OVERLAP_CHILD") != "" {
		o = seats[0]
	}
	b, err := o.open(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if o.Lead {
		until(t, "the node leads", func() bool { return b.office.Load() != nil })
	}
	seated.Store(o.Addr, b)
	t.Cleanup(func() {
		seated.Delete(o.Addr)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// node returns the node of a seat in this process.
func (r *trio) node(t testing.TB, seat int) *Backend {
	t.Helper()
	b, ok := seated.Load(r.addrs[seat])
	if !ok {
		t.Fatalf("seat %d is empty", seat)
	}
	return b.(*Backend)
}

// lead makes the node of a seat the raft leader.
func (r *trio) lead(t testing.TB, seat int) {
	t.Helper()
	until(t, "the node leads", func() bool {
		if r.leads(t, seat) {
			return true
		}
		for s := range crewSize {
			if r.leads(t, s) {
				r.transfer(t, s, seat)
			}
		}
		return false
	})
}

func (r *trio) leads(t testing.TB, seat int) bool {
	if seat == thirdSeat {
		return r.third.leads(t.Context())
	}
	return r.node(t, seat).office.Load() != nil
}

// transfer makes the raft leader hand its office over. The third node cannot be told to whom.
func (r *trio) transfer(t testing.TB, from, to int) {
	t.Helper()
	if from != thirdSeat {
		_ = r.node(t, from).transferTo(r.addrs[to]) // the caller looks again
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), crewPatience)
	defer cancel()
	_, _ = r.third.order(ctx, Order{Do: transferring}) // likewise
}

// stage puts a fault before a cluster in which the node of a seat leads.
func stage(leads int, do func(t testing.TB, r *trio) (heal func())) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		r := newTrio(t, false)
		return backendtest.Stage{
			Holder:    r.address(t, holderSeat),
			Contender: r.address(t, contenderSeat),
			Do: func(t testing.TB) func() {
				t.Helper()
				r.lead(t, leads)
				return do(t, r)
			},
		}
	}
}

func killThird(t testing.TB, r *trio) func() {
	t.Helper()
	r.third.kill9()
	return func() { r.third = startNode(t, r.orders(thirdSeat)) }
}

func stopThird(_ testing.TB, r *trio) func() {
	r.third.stop()
	return r.third.cont
}

func holderSuffers(do func(p *netfault.Proxy)) func(t testing.TB, r *trio) func() {
	return func(_ testing.TB, r *trio) func() {
		r.around(holderSeat, do)
		return r.mend
	}
}

// noQuorum leaves each node alone.
func noQuorum(_ testing.TB, r *trio) func() {
	r.third.stop()
	r.around(holderSeat, (*netfault.Proxy).Drop)
	return func() {
		r.third.cont()
		r.mend()
	}
}

// killThirdAgainAndAgain kills the raft leader, restarts it, and makes it the leader again, until the healing.
func killThirdAgainAndAgain(t testing.TB, r *trio) func() {
	t.Helper()
	over, times := make(chan struct{}), 0
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			r.lead(t, thirdSeat)
			killThird(t, r)()
			times++
		}
	})
	return func() {
		close(over)
		running.Wait()
		t.Logf("killed %d times", times)
		if times < 2 {
			t.Errorf("the raft leader was killed %d times, want some more", times)
		}
	}
}

func TestOverlap(t *testing.T) {
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start:    func(t testing.TB) string { t.Helper(); return newTrio(t, false).address(t, anySeat) },
		Dial:     dialSeat,
		Fidelity: backendtest.Real,
		Lease:    overlapLease,
		Faults: []backendtest.Fault{
			{
				Name: "LeaderKilled", Effect: backendtest.LosesNone, Lease: longOverlapLease, Lasts: 2 * time.Second,
				Stage: stage(thirdSeat, killThird),
			},
			{
				Name: "FollowerKilled", Effect: backendtest.LosesNone, Lease: longOverlapLease, Lasts: 2 * time.Second,
				Stage: stage(holderSeat, killThird),
			},
			{
				Name: "LeaderKilledAgainAndAgain", Effect: backendtest.LosesSome, Lasts: 8 * time.Second,
				Stage: stage(thirdSeat, killThirdAgainAndAgain),
			},
			{
				Name: "LeaderStoppedBriefly", Effect: backendtest.LosesNone, Lease: longOverlapLease, Lasts: 2 * time.Second,
				Stage: stage(thirdSeat, stopThird),
			},
			{
				Name: "LeaderStopped", Effect: backendtest.LosesSome, Lasts: 2 * overlapLease,
				Stage: stage(thirdSeat, stopThird),
			},
			{
				Name: "LeaderCutOffWithItsClient", Effect: backendtest.LosesAll,
				Stage: stage(holderSeat, holderSuffers((*netfault.Proxy).Drop)),
			},
			{
				Name: "LeaderFrozenWithItsClient", Effect: backendtest.LosesAll,
				Stage: stage(holderSeat, holderSuffers((*netfault.Proxy).Freeze)),
			},
			{
				Name: "LeaderFrozenBrieflyWithItsClient", Effect: backendtest.LosesNone,
				Lease: longOverlapLease, Lasts: 2 * time.Second,
				Stage: stage(holderSeat, holderSuffers((*netfault.Proxy).Freeze)),
			},
			{
				Name: "FollowerCutOffWithItsClient", Effect: backendtest.LosesAll,
				Stage: stage(contenderSeat, holderSuffers((*netfault.Proxy).Drop)),
			},
			{
				Name: "FollowerFrozenUntilSomeAreLost", Effect: backendtest.LosesSome, Lasts: overlapLease * 3 / 4,
				Stage: stage(thirdSeat, holderSuffers((*netfault.Proxy).Freeze)),
			},
			{
				Name: "NoQuorum", Effect: backendtest.LosesAll, Lasts: overlapLease * 3 / 2,
				Stage: stage(thirdSeat, noQuorum),
			},
		},
	})
}

// TestOverlap_WhenTheHolderIsTheRaftLeader stops and kills processes that are both.
func TestOverlap_WhenTheHolderIsTheRaftLeader(t *testing.T) {
	t.Parallel()
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start:    func(t testing.TB) string { t.Helper(); return newTrio(t, true).address(t, anySeat) },
		Dial:     dialSeat,
		Fidelity: backendtest.Real,
		Lease:    overlapLease,
		Skip:     map[string]string{"HandOff": "who leads does not matter to it"},
	})
}
