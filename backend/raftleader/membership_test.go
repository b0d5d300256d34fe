package raftleader_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader"
)

// ids returns the ids of the voters as a node knows them, by address.
func ids(b *raftleader.Backend) map[string]string {
	found := map[string]string{}
	for _, s := range b.Raft().GetConfiguration().Configuration().Servers {
		if s.Suffrage == raft.Voter {
			found[string(s.Address)] = string(s.ID)
		}
	}
	return found
}

// complete waits until all running nodes are voters by what each of them knows, and nobody else is.
func (c *nodes) complete() {
	c.t.Helper()
	eventually(c.t, "all nodes are members, and no others", func() bool {
		for _, b := range c.list {
			if b == nil {
				continue
			}
			known := ids(b)
			for i, other := range c.list {
				if other != nil && known[c.configs[i].Addr] != other.ID() {
					return false
				}
			}
			if len(known) > len(c.list) {
				return false
			}
		}
		return true
	})
}

func TestOpen_FoundsAClusterOnlyWhenAllPeersAreThere(t *testing.T) {
	c := newNodes(t, 3)
	c.start(0)
	c.start(1)
	ctx, cancel := context.WithTimeout(t.Context(), 3*election)
	defer cancel()
	_, err := c.list[0].TryAcquire(ctx, request("job", "a"))
	if backend.KindOf(err) != backend.Unavailable || !strings.Contains(err.Error(), "waiting for "+c.configs[2].Addr) {
		t.Fatalf("got %v, want Unavailable and who is waited for", err)
	}
	c.start(2)
	c.leader()
	c.complete()
	acquire(t, c.list[0], "job", "a")
}

func TestOpen_ANodeAlone_NeedsNobody(t *testing.T) {
	b, err := raftleader.Open(t.Context(), raftleader.Config{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	began := time.Now()
	acquire(t, b, "job", "a")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestOpen_ANodeAlone_KeepsItsLeasesOnDisk(t *testing.T) {
	cfg := raftleader.Config{Addr: "127.0.0.1:0", Dir: t.TempDir()}
	b, err := raftleader.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := acquire(t, b, "job", "a")
	if err := b.Kill(); err != nil {
		t.Fatal(err)
	}
	b, err = raftleader.Open(t.Context(), cfg) // on another port
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if h, err := b.Inspect(t.Context(), "job"); err != nil || h.Fence != l.Fence() || h.Owner != "owner of a" {
		t.Fatalf("got %+v, %v, want the lease of before", h, err)
	}
	renewed(t, b.Bound(l))
}

func TestOpen_ANodeWithAWipedDisk_JoinsAsANewMember(t *testing.T) {
	c := startNodes(t, 3, durable(t))
	l := acquire(t, c.list[0], "job", "a")
	i := c.follower()
	was := c.list[i].ID()
	c.kill(i)
	if err := os.RemoveAll(c.configs[i].Dir); err != nil {
		t.Fatal(err)
	}
	c.start(i)
	c.complete()
	if c.list[i].ID() == was {
		t.Error("the node has the id of before")
	}
	if h, err := c.list[i].Inspect(t.Context(), "job"); err != nil || h.Fence != l.Fence() {
		t.Errorf("got %+v, %v, want the lease of before", h, err)
	}
	eventually(t, "the new member has the log", func() bool {
		return c.list[i].Machine().Holder("job", 0).Fence == l.Fence()
	})
}

func TestOpen_NodesInMemory_AreReplacedOneByOne(t *testing.T) {
	c := startNodes(t, 3)
	l := acquire(t, c.list[0], "job", "a")
	for i := range c.list {
		c.kill(i)
		c.leader()
		c.start(i)
		c.leader()
		c.complete()
	}
	if h, err := c.list[0].Inspect(t.Context(), "job"); err != nil || h.Fence != l.Fence() {
		t.Errorf("got %+v, %v, want the lease that no node has been granting", h, err)
	}
}

func TestOpen_NodesInMemory_DoNotBeginAnewWhileOneRemembers(t *testing.T) {
	c := startNodes(t, 3)
	acquire(t, c.list[0], "job", "a")
	c.kill(0)
	c.kill(1)
	c.start(0)
	c.start(1)
	ctx, cancel := context.WithTimeout(t.Context(), 4*election)
	defer cancel()
	_, err := c.list[0].TryAcquire(ctx, request("job", "b"))
	if backend.KindOf(err) != backend.Unavailable || !strings.Contains(err.Error(), "no quorum") {
		t.Fatalf("got %v, want Unavailable for lack of a quorum", err)
	}
	if !strings.Contains(err.Error(), c.configs[0].Addr) || !strings.Contains(err.Error(), c.configs[1].Addr) {
		t.Errorf("%v does not name the nodes that forgot", err)
	}
	c.kill(2)
	c.start(2)
	c.leader()
	acquire(t, c.list[0], "job", "b")
}

func TestOpen_AClusterThatForgotEverything_GrantsGreaterFences(t *testing.T) {
	c := startNodes(t, 3)
	l := acquire(t, c.list[0], "job", "a")
	for i := range c.list {
		c.kill(i)
	}
	for i := range c.list {
		c.start(i)
	}
	if next := acquire(t, c.list[1], "job", "b"); next.Fence() <= l.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), l.Fence())
	}
}

func TestOpen_ThreeNodes_RestartFromDisk(t *testing.T) {
	c := startNodes(t, 3, durable(t))
	l := acquire(t, c.list[0], "job", "a")
	version, err := c.list[1].PutRecord(t.Context(), backend.Record{Key: "job!run/1", Value: []byte("v")})
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.list {
		c.kill(i)
	}
	for i := range c.list {
		c.start(i)
	}
	c.leader()
	for i, b := range c.list {
		if h, err := b.Inspect(t.Context(), "job"); err != nil || h.Fence != l.Fence() {
			t.Errorf("node %d: got %+v, %v, want the lease of before", i, h, err)
		}
		list, _, err := b.GetRecords(t.Context(), "job!run/")
		if err != nil || len(list) != 1 || list[0].Version != version {
			t.Errorf("node %d: got %+v, %v, want the record of before", i, list, err)
		}
	}
	renewed(t, c.list[2].Bound(l))
}

func TestOpen_RefusesANodeThatIsNoPeer(t *testing.T) {
	c := startNodes(t, 3)
	stranger := raftleader.Config{Addr: listenOnce(t), ElectionTimeout: election}
	stranger.Peers = append([]string{stranger.Addr}, c.configs[0].Peers...)
	b, err := raftleader.Open(t.Context(), stranger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Kill() })
	_, err = b.TryAcquire(t.Context(), request("job", "a"))
	if backend.KindOf(err) != backend.Unavailable || !strings.Contains(err.Error(), "does not have "+stranger.Addr) {
		t.Errorf("got %v, want Unavailable and whom the raft leader does not know", err)
	}
	if known := ids(c.list[c.leader()]); len(known) != 3 {
		t.Errorf("members are %v", known)
	}
}

func TestOpen_RefusesToFoundWithOtherPeers(t *testing.T) {
	c := newNodes(t, 2)
	c.configs[1].Peers = append([]string{"127.0.0.1:1"}, c.configs[1].Peers...)
	c.start(0)
	c.start(1)
	_, err := c.list[0].TryAcquire(t.Context(), request("job", "a"))
	if backend.KindOf(err) != backend.Unavailable || !strings.Contains(err.Error(), "other peers") {
		t.Errorf("got %v, want Unavailable and the difference", err)
	}
}

// Two nodes that take themselves for the same one must not found two clusters.
func TestOpen_FoundsNothingWhenItsAddressLeadsToAnother(t *testing.T) {
	c := newNodes(t, 2)
	first, other := 0, 1
	if c.configs[first].Addr > c.configs[other].Addr {
		first, other = other, first
	}
	own := c.configs[first].Addr
	c.configs[first].WithDial(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, c.configs[other].Addr)
	})
	b := c.start(first)
	c.start(other)
	_, err := b.TryAcquire(t.Context(), request("job", "a"))
	if backend.KindOf(err) != backend.Unavailable || !strings.Contains(err.Error(), "another node answers at "+own) {
		t.Errorf("got %v, want Unavailable and the address", err)
	}
}

func TestOpen_ANodeWithTheAddressOfAnother_DoesNotTakeItsPlace(t *testing.T) {
	c := startNodes(t, 3)
	i := c.follower()
	wrong := c.configs[i]
	wrong.Addr, wrong.Advertise = "127.0.0.1:0", c.configs[i].Addr
	b, err := raftleader.Open(t.Context(), wrong)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Kill() })
	_, err = b.TryAcquire(t.Context(), request("job", "a"))
	if backend.KindOf(err) != backend.Unavailable || !strings.Contains(err.Error(), "another node answers at "+wrong.Advertise) {
		t.Errorf("got %v, want Unavailable and the address", err)
	}
	if known := ids(c.list[c.leader()]); known[wrong.Advertise] != c.list[i].ID() {
		t.Errorf("members are %v, want %q among them", known, c.list[i].ID())
	}
}

func TestOpen_NodesInMemory_AreReplacedUnderLoad(t *testing.T) {
	c := startNodes(t, 3)
	b := c.list[0]
	stop := make(chan struct{})
	var running sync.WaitGroup
	var terms int
	running.Go(func() {
		for last := uint64(0); ; terms++ {
			select {
			case <-stop:
				return
			default:
			}
			var l backend.Lease
			token := "token " + strconv.Itoa(terms)
			err := settled(t, func(ctx context.Context) error {
				var err error
				l, err = b.TryAcquire(ctx, request("job", token))
				return err
			})
			if err == nil {
				err = settled(t, func(ctx context.Context) error { return l.Release(ctx, 0) })
			}
			if err != nil || l.Fence() <= last {
				t.Errorf("term %d: %v", terms, err)
				return
			}
			last = l.Fence()
		}
	})
	for range 2 {
		for _, i := range []int{1, 2} {
			c.kill(i)
			c.start(i)
			c.complete()
		}
	}
	close(stop)
	running.Wait()
	if terms < 10 {
		t.Errorf("%d terms", terms)
	}
}

func TestOpen_RefusesTheFolderOfAnotherCluster(t *testing.T) {
	other := startNodes(t, 3, durable(t))
	eventually(t, "a node knows that its cluster is founded", func() bool {
		return other.list[0].Machine().Cluster() != ""
	})
	c := startNodes(t, 3, durable(t))
	i := c.follower()
	c.kill(i)
	was := c.configs[i].Dir
	c.configs[i].Dir = other.configs[0].Dir
	for _, known := range []bool{true, false} { // that it is founded, or only that it may be
		if !known {
			if err := other.list[0].Set("leader/cluster", ""); err != nil {
				t.Fatal(err)
			}
		}
		for i, b := range other.list {
			if b != nil {
				other.kill(i)
			}
		}
		_, err := c.start(i).Inspect(t.Context(), "job")
		if backend.KindOf(err) != backend.Unavailable || !strings.Contains(err.Error(), "of another cluster") {
			t.Errorf("known %v: %v, want Unavailable and the reason", known, err)
		}
		c.kill(i)
		if known {
			other.start(0)
		}
	}
	c.configs[i].Dir = was
	c.start(i)
	c.leader()
	c.complete()
}

func TestOpen_ANodeAlone_GrowsIntoACluster(t *testing.T) {
	c := newNodes(t, 3, durable(t))
	peers := c.configs[0].Peers
	c.configs[0].Peers = nil
	l := acquire(t, c.start(0), "job", "a")
	c.kill(0)
	c.configs[0].Peers = peers
	for i := range c.list {
		c.start(i)
	}
	c.leader()
	c.complete()
	c.kill(0)
	if h, err := c.list[c.leader()].Inspect(t.Context(), "job"); err != nil || h.Fence != l.Fence() {
		t.Errorf("got %+v, %v, want the lease of the one", h, err)
	}
}

func TestBackend_Leave_RemovesTheNode(t *testing.T) {
	c := startNodes(t, 3)
	for _, which := range []string{"a follower", "the raft leader"} {
		i := c.follower()
		if which == "the raft leader" {
			i = c.leader()
		}
		if err := settled(t, c.list[i].Leave); err != nil {
			t.Fatalf("%s: %v", which, err)
		}
		if _, err := c.list[i].Inspect(t.Context(), "job"); backend.KindOf(err) != backend.Misconfigured {
			t.Errorf("%s that has left: %v, want Misconfigured", which, err)
		}
		if err := c.list[i].Close(); err != nil {
			t.Error(err)
		}
		c.list[i] = nil
		address := c.configs[i].Addr
		eventually(t, which+" is no member", func() bool { return ids(c.list[c.leader()])[address] == "" })
	}
	l := acquire(t, c.list[c.leader()], "job", "a") // by one node: the others count no longer
	released(t, l)
	for i, b := range c.list {
		if b == nil {
			c.start(i)
			c.leader()
			c.complete()
		}
	}
}

// An application that comes after the dismissal must not make the node a member again.
func TestBackend_Leave_IsNotUndoneByAnEarlierApplication(t *testing.T) {
	c := startNodes(t, 3)
	c.complete()
	i := c.follower()
	if err := settled(t, c.list[i].Leave); err != nil {
		t.Fatal(err)
	}
	leader := c.list[c.leader()]
	applied := leader.Admit(t.Context(), c.list[i].ID(), c.configs[i].Addr)
	if applied == nil || ids(leader)[c.configs[i].Addr] != "" {
		t.Errorf("the application of a node that has left: %v", applied)
	}
	for _, s := range leader.Raft().GetConfiguration().Configuration().Servers {
		if string(s.Address) == c.configs[i].Addr {
			t.Errorf("%+v is a member again", s)
		}
	}
}

func TestBackend_Leave_EndsWithTheNode(t *testing.T) {
	c := startNodes(t, 3)
	i := c.follower()
	for other := range c.list {
		if other != i {
			c.kill(other)
		}
	}
	eventually(t, "the node knows no raft leader", func() bool { return !c.list[i].Knows() })
	left := make(chan error, 1)
	go func() { left <- c.list[i].Leave(context.WithoutCancel(t.Context())) }()
	eventually(t, "the node is leaving", func() bool {
		_, err := c.list[i].TryAcquire(t.Context(), request("job", "a"))
		return backend.KindOf(err) == backend.Misconfigured
	})
	if err := c.list[i].Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-left:
		if backend.KindOf(err) != backend.Misconfigured {
			t.Errorf("got %v, want that the node is closed", err)
		}
	case <-time.After(patience):
		t.Error("it goes on")
	}
}

func TestBackend_Leave_WhoeverKnowsNoMembersYetIsNotTheLastNode(t *testing.T) {
	c := newNodes(t, 3)
	b := c.start(0)
	ctx, cancel := context.WithTimeout(t.Context(), election)
	defer cancel()
	if err := b.Leave(ctx); backend.KindOf(err) != backend.Unavailable || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that there is no cluster to leave", err)
	}
}

func TestBackend_Leave_OfTheLastNodeDoesNothing(t *testing.T) {
	for name, founded := range map[string]bool{"a cluster of one": true, "before it has founded it": false} {
		c := newNodes(t, 1)
		b := c.start(0)
		if founded {
			c.leader()
		}
		if err := b.Leave(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBackend_Leave_OfTheLastNodeAtAnotherAddressDoesNothing(t *testing.T) {
	c := newNodes(t, 1, durable(t))
	c.start(0)
	c.leader()
	c.kill(0)
	c.configs[0].Addr, c.configs[0].Peers = listenOnce(t), nil
	b := c.start(0)
	c.leader()
	if err := b.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestBackend_Leave_OfTheLastTwoLeavesOne(t *testing.T) {
	c := startNodes(t, 2)
	left := make(chan error, 2)
	for _, b := range c.list {
		go func() { left <- settled(t, b.Leave) }()
	}
	for range 2 {
		select {
		case err := <-left:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("a node does not get away")
		}
	}
}

func TestBackend_Remove_LetsTheOthersDoWithoutALostNode(t *testing.T) {
	c := startNodes(t, 3)
	lost := c.follower()
	c.kill(lost)
	if err := c.list[c.follower()].Remove(t.Context(), c.configs[lost].Addr); err != nil {
		t.Fatal(err)
	}
	if known := ids(c.list[c.leader()]); len(known) != 2 || known[c.configs[lost].Addr] != "" {
		t.Errorf("members are %v", known)
	}
}

// listenOnce returns an address that was free a moment ago.
func listenOnce(t testing.TB) string {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	defer l.Close()
	return l.Addr().String()
}
