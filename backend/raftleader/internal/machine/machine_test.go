package machine_test

import (
	"testing"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader/internal/machine"
)

const (
	second = int64(1e6)
	hour   = 3600 * second
	epoch  = int64(1_700_000_000_000_000)
	ttl    = 10 * second
)

// cluster is a machine together with the log that it was fed.
type cluster struct {
	*machine.Machine

	t     testing.TB
	index uint64
}

func found(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{Machine: machine.New(), t: t}
	c.apply(machine.Command{Kind: machine.Found, Token: "cluster", Wall: epoch})
	return c
}

func (c *cluster) apply(cmd machine.Command) machine.Reply {
	c.index++
	return c.Apply(c.index, cmd)
}

// want applies cmd and checks how it is answered.
func (c *cluster) want(code machine.Code, cmd machine.Command) machine.Reply {
	c.t.Helper()
	r := c.apply(cmd)
	if r.Code != code {
		c.t.Fatalf("%+v: got %+v, want code %d", cmd, r, code)
	}
	return r
}

func acquire(at int64, key, token string) machine.Command {
	return machine.Command{Kind: machine.Acquire, At: at, Key: key, Token: token, Owner: "owner of " + token, TTL: ttl, Wall: epoch + at}
}

func renew(at int64, key, token string, fence uint64, d int64) machine.Command {
	return machine.Command{Kind: machine.Renew, At: at, Key: key, Token: token, Fence: fence, TTL: d}
}

func release(at int64, key, token string, fence uint64, keep int64) machine.Command {
	return machine.Command{Kind: machine.Release, At: at, Key: key, Token: token, Fence: fence, TTL: keep}
}

func abandon(at int64, key, token string) machine.Command {
	return machine.Command{Kind: machine.Abandon, At: at, Key: key, Token: token}
}

func tick(at int64) machine.Command { return machine.Command{Kind: machine.Tick, At: at} }

func TestMachine_Acquire_ExcludesOthersUntilTheEnd(t *testing.T) {
	c := found(t)
	first := c.want(machine.OK, acquire(0, "a", "1"))
	held := c.want(machine.Held, acquire(ttl-1, "a", "2")).Holder
	if held.Owner != "owner of 1" || held.Fence != first.Fence || held.Remaining != 1 || held.Since != epoch || held.Kept {
		t.Errorf("holder %+v", held)
	}
	second := c.want(machine.OK, acquire(ttl, "a", "2"))
	if second.Fence <= first.Fence {
		t.Errorf("fence %d after %d", second.Fence, first.Fence)
	}
	c.want(machine.Lost, renew(ttl, "a", "1", first.Fence, ttl))
}

func TestMachine_Acquire_ARepetitionMovesTheEndAndKeepsTheFence(t *testing.T) {
	c := found(t)
	first := c.want(machine.OK, acquire(0, "a", "1"))
	again := c.want(machine.OK, acquire(ttl/2, "a", "1"))
	if again.Fence != first.Fence {
		t.Errorf("fence %d became %d", first.Fence, again.Fence)
	}
	if h := c.Holder("a", ttl/2); h.Remaining != ttl {
		t.Errorf("%+v, want the whole TTL", h)
	}
}

func TestMachine_Acquire_RefusesASpentToken(t *testing.T) {
	c := found(t)
	c.want(machine.OK, abandon(0, "never held", "1"))
	c.want(machine.Lost, acquire(0, "never held", "1"))
	r := c.want(machine.OK, acquire(0, "released", "1"))
	c.want(machine.OK, release(1, "released", "1", r.Fence, 0))
	c.want(machine.Lost, acquire(1, "released", "1"))
	r = c.want(machine.OK, acquire(1, "expired", "1"))
	c.want(machine.OK, release(1+ttl, "expired", "1", r.Fence, second))
	c.want(machine.Lost, acquire(1+ttl, "expired", "1"))
	c.want(machine.OK, acquire(1+ttl, "expired", "2"))
}

func TestMachine_Renew_NeverShortens(t *testing.T) {
	c := found(t)
	r := c.want(machine.OK, acquire(0, "a", "1"))
	c.want(machine.OK, renew(0, "a", "1", r.Fence, second))
	c.want(machine.OK, renew(ttl-1, "a", "1", r.Fence, ttl))
	if h := c.Holder("a", ttl-1); h.Remaining != ttl {
		t.Errorf("%+v", h)
	}
	c.want(machine.Lost, renew(2*ttl-1, "a", "1", r.Fence, ttl))
}

func TestMachine_Renew_IsLostUnderAnotherFence(t *testing.T) {
	c := found(t)
	first := c.want(machine.OK, acquire(0, "a", "1"))
	second := c.want(machine.OK, acquire(ttl, "a", "1"))
	c.want(machine.Lost, renew(ttl, "a", "1", first.Fence, ttl))
	c.want(machine.OK, renew(ttl, "a", "1", second.Fence, ttl))
}

func TestMachine_Release_KeepsAndComputesTheKeepAnew(t *testing.T) {
	c := found(t)
	r := c.want(machine.OK, acquire(0, "a", "1"))
	for i, keep := range []int64{20 * second, 15 * second} {
		at := int64(i) * 5 * second
		c.want(machine.OK, release(at, "a", "1", r.Fence, keep))
		if h := c.Holder("a", at); !h.Kept || h.Remaining != keep || h.Owner != "owner of 1" || h.Fence != r.Fence {
			t.Errorf("%+v, want kept for %d", h, keep)
		}
	}
	c.want(machine.Held, acquire(20*second-1, "a", "2"))
	c.want(machine.OK, acquire(20*second, "a", "2"))
}

func TestMachine_ReleaseAndAbandon_LeaveASuccessorAlone(t *testing.T) {
	c := found(t)
	first := c.want(machine.OK, acquire(0, "a", "1"))
	next := c.want(machine.OK, acquire(ttl, "a", "2"))
	c.want(machine.OK, release(ttl, "a", "1", first.Fence, 0))
	c.want(machine.OK, release(ttl, "a", "1", next.Fence, 0))
	c.want(machine.OK, abandon(ttl, "a", "1"))
	c.want(machine.OK, renew(ttl, "a", "2", next.Fence, ttl))
	c.want(machine.Held, acquire(ttl, "a", "3"))
}

func TestMachine_Break_EndsOnlyTheLeaseOfItsFence(t *testing.T) {
	c := found(t)
	r := c.want(machine.OK, acquire(0, "a", "1"))
	c.want(machine.Conflict, machine.Command{Kind: machine.Break, Key: "a", Fence: r.Fence + 1})
	c.want(machine.OK, machine.Command{Kind: machine.Break, Key: "a", Fence: r.Fence})
	c.want(machine.Lost, renew(0, "a", "1", r.Fence, ttl))
	c.want(machine.Lost, acquire(0, "a", "1"))
	c.want(machine.Conflict, machine.Command{Kind: machine.Break, Key: "a", Fence: r.Fence})
	c.want(machine.Conflict, machine.Command{Kind: machine.Break, Key: "never held"})
}

func TestMachine_AcquireSlot_TakesTheFirstFreeOneAndTellsWhichEndsFirst(t *testing.T) {
	c := found(t)
	slot := func(at int64, token string, d int64) machine.Command {
		return machine.Command{Kind: machine.AcquireSlot, At: at, Key: "g", Token: token, Owner: token, TTL: d, Slots: 3}
	}
	for i, token := range []string{"1", "2", "3"} {
		r := c.want(machine.OK, slot(0, token, ttl-int64(i)))
		if h := c.Holder(backend.SlotKey("g", i), 0); r.Slot != i || h.Fence != r.Fence || h.Owner != token {
			t.Errorf("got %+v, %+v, want slot %d", r, h, i)
		}
	}
	if h := c.want(machine.Held, slot(0, "4", ttl)).Holder; h.Owner != "3" {
		t.Errorf("%+v, want the one that ends first", h)
	}
	if r := c.want(machine.OK, slot(second, "2", ttl)); r.Slot != 1 || c.Holder("g#1", second).Remaining != ttl {
		t.Errorf("a repetition got %+v", r)
	}
	c.want(machine.OK, abandon(second, "g#0", "1"))
	c.want(machine.Lost, slot(second, "1", ttl))
	if r := c.want(machine.OK, slot(second, "4", ttl)); r.Slot != 0 {
		t.Errorf("got %+v, want slot 0", r)
	}
}

func TestMachine_Records_CompareAndSet(t *testing.T) {
	c := found(t)
	put := func(at int64, version, value string, d int64) machine.Command {
		return machine.Command{Kind: machine.PutRecord, At: at, Key: "a!run/1", Version: version, Value: []byte(value), TTL: d}
	}
	remove := func(at int64, version string) machine.Command {
		return machine.Command{Kind: machine.DeleteRecord, At: at, Key: "a!run/1", Version: version}
	}
	c.want(machine.Conflict, put(0, "7", "v", 0))
	c.want(machine.OK, remove(0, "7"))
	first := c.want(machine.OK, put(0, "", "v", 0)).Version
	c.want(machine.Conflict, put(0, "", "w", 0))
	c.want(machine.Conflict, remove(0, first+"0"))
	next := c.want(machine.OK, put(0, first, "w", ttl)).Version
	c.apply(machine.Command{Kind: machine.PutRecord, Key: "a!run2/1", Value: []byte("another set")})
	list := c.Records("a!run/", ttl-1)
	if len(list) != 1 || list[0].Version != next || string(list[0].Value) != "w" || list[0].TTL != 1 {
		t.Errorf("got %+v", list)
	}
	if list := c.Records("a!run/", ttl); len(list) != 0 {
		t.Errorf("got %+v after the end", list)
	}
	c.want(machine.Conflict, put(ttl, next, "w", 0))
	last := c.want(machine.OK, put(ttl, "", "x", 0)).Version
	if last == first || last == next {
		t.Errorf("version %s was given before", last)
	}
	c.want(machine.OK, remove(ttl, last))
	c.want(machine.OK, put(ttl, "", "x", 0))
}

func TestMachine_List_ShowsKeptAndExpiredOnesIfAsked(t *testing.T) {
	c := found(t)
	c.want(machine.OK, acquire(0, "x/expired", "1"))
	c.want(machine.OK, acquire(ttl, "x/held", "2"))
	c.want(machine.OK, acquire(ttl, "y/held", "3"))
	for key, keep := range map[string]int64{"x/kept": second, "x/released": 0} {
		r := c.want(machine.OK, acquire(ttl, key, "4"))
		c.want(machine.OK, release(ttl, key, "4", r.Fence, keep))
	}
	if list := c.List("x/", false, ttl); len(list) != 1 || list[0].Key != "x/held" || list[0].Remaining != ttl {
		t.Errorf("got %+v", list)
	}
	all := map[string]machine.Holder{}
	for _, e := range c.List("x/", true, ttl) {
		all[e.Key] = e.Holder
	}
	if len(all) != 3 || !all["x/kept"].Kept || all["x/expired"].Remaining != 0 || all["x/expired"].Owner != "owner of 1" {
		t.Errorf("got %+v", all)
	}
}

func TestMachine_Fences_GrowOverAClusterThatLostEverything(t *testing.T) {
	before := found(t)
	for range 1000 {
		before.want(machine.OK, tick(0))
	}
	last := before.want(machine.OK, acquire(0, "a", "1")).Fence
	after := &cluster{Machine: machine.New(), t: t}
	after.apply(machine.Command{Kind: machine.Found, Token: "another", Wall: epoch + second})
	if next := after.want(machine.OK, acquire(0, "a", "1")).Fence; next <= last {
		t.Errorf("fence %d after %d", next, last)
	}
}

func TestMachine_Found_CountsOnce(t *testing.T) {
	c := found(t)
	c.want(machine.OK, machine.Command{Kind: machine.Found, Token: "another", Wall: 1})
	if c.Epoch() != uint64(epoch) || c.Cluster() != "cluster" {
		t.Errorf("epoch %d of %q", c.Epoch(), c.Cluster())
	}
}

func TestMachine_Now_NeverGoesBack(t *testing.T) {
	c := found(t)
	c.apply(tick(ttl))
	c.want(machine.OK, acquire(1, "a", "1"))
	if c.Now() != ttl || c.Holder("a", 0).Remaining != ttl {
		t.Errorf("%d, %+v", c.Now(), c.Holder("a", 0))
	}
}
