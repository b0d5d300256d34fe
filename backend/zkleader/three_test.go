package zkleader_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/zkleader"
	"github.com/goleader/leader/internal/testserver"
)

// threeLease is the lease time, and session timeout, that outlives the election of another server.
const threeLease = 10 * time.Second

func TestOverlap_OnThreeNodes(t *testing.T) {
	alone := "what becomes of the holder's process is tested on one node"
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start:    func(t testing.TB) string { t.Fatal("not used"); return "" },
		Dial:     dialFor,
		Fidelity: backendtest.Real,
		Lease:    threeLease,
		Faults: []backendtest.Fault{{
			Name:   "LeaderKilledInALoop",
			Effect: backendtest.LosesNone,
			Lasts:  20 * time.Second,
			Stage:  leaderKilledInALoop,
		}},
		Skip: map[string]string{"StoppedHolder": alone, "KilledHolder": alone, "HandOff": alone},
	})
}

func leaderKilledInALoop(t testing.TB) backendtest.Stage {
	t.Helper()
	three := testserver.ZooKeeperThree(t)
	addr := withTimeout(strings.Join(three.Addrs(), ","), threeLease)
	return backendtest.Stage{Holder: addr, Contender: addr, Do: func(t testing.TB) func() {
		t.Helper()
		over, ended, kills := make(chan struct{}), make(chan struct{}), 0
		go func() {
			defer close(ended)
			for {
				node := three.Leader(t)
				node.Kill9(t)
				kills++
				node.Restart(t)
				select {
				case <-over:
					return
				case <-time.After(time.Second): // a quorum stands for that long
				}
			}
		}()
		return func() {
			close(over)
			<-ended
			t.Logf("the leader was killed %d times", kills)
			if kills < 3 {
				t.Errorf("the leader was killed %d times, want some more", kills)
			}
		}
	}}
}

func TestLease_Renew_KeepsTheSessionOnAnotherNode(t *testing.T) {
	three := testserver.ZooKeeperThree(t)
	var p tap
	b := zkleader.New(three.Addrs(), &zkleader.Options{SessionTimeout: 30 * time.Second, Dial: p.dial})
	t.Cleanup(func() { _ = b.Close() })
	l := acquired(t, b, request("job", 30*time.Second))
	told, session := lost(t, l), p.session()
	for range 2 {
		node := three.Nodes()[0]
		for _, n := range three.Nodes() {
			if n.Addr() == p.server() {
				node = n
			}
		}
		node.Kill9(t)
		eventually(t, "the lease is renewed on another node", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			err := l.Renew(ctx, 30*time.Second)
			if errors.Is(err, backend.ErrLost) {
				t.Fatal("the lease is lost with its node")
			}
			return err == nil
		})
		if p.server() == node.Addr() || p.session() != session {
			t.Errorf("session %x on %s, want %x on another node", p.session(), p.server(), session)
		}
		node.Restart(t)
	}
	select {
	case <-told:
		t.Error("the lease is told that it is lost")
	default:
	}
}

func TestLease_Renew_IsNotConfirmedByAFollowerWithoutAQuorum(t *testing.T) {
	three := testserver.ZooKeeperThree(t)
	leads := three.Leader(t)
	var follower, other *testserver.Server
	for _, n := range three.Nodes() {
		switch {
		case n == leads:
		case follower == nil:
			follower = n
		default:
			other = n
		}
	}
	b := open(t, follower.Addr(), &zkleader.Options{SessionTimeout: 30 * time.Second})
	req := request("job", 30*time.Second)
	l := acquired(t, b, req)
	leads.Stop(t)
	other.Stop(t)
	if h, err := b.Inspect(t.Context(), "job"); err != nil || h.Owner != req.Owner {
		t.Errorf("Inspect = %+v, %v: want that the follower answers what it knows", h, err)
	}
	calls := map[string]func(ctx context.Context) error{
		"Renew": func(ctx context.Context) error { return l.Renew(ctx, req.TTL) },
		"a repeated TryAcquire": func(ctx context.Context) error {
			_, err := b.TryAcquire(ctx, req)
			return err
		},
	}
	var asking sync.WaitGroup
	var mended atomic.Bool
	for name, call := range calls {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
			defer cancel()
			if err := call(ctx); err == nil && !mended.Load() {
				t.Errorf("%s succeeds without a quorum", name)
			}
		})
	}
	time.Sleep(time.Second)
	mended.Store(true)
	leads.Cont(t)
	other.Cont(t)
	asking.Wait()
	eventually(t, "the lease is renewed by the quorum", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return l.Renew(ctx, req.TTL) == nil
	})
}
