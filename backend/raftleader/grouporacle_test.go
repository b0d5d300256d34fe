package raftleader_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/backend/raftleader"
)

// The processes of the oracle are nodes of a cluster, of which five more are in the test itself, so that there is a
// majority whatever happens to the processes.
const (
	steadyNodes  = 5
	processNodes = 4
)

func TestGroup_Oracle_CountsAtMostNLeaders(t *testing.T) {
	backendtest.GroupOracle(t, backendtest.OracleConfig{
		Start: func(t testing.TB) string {
			t.Helper()
			c := startNodes(t, steadyNodes+processNodes)
			for i := steadyNodes; i < len(c.list); i++ {
				c.leave(i)
			}
			return strings.Join(c.configs[0].Peers, " ")
		},
		Dial: dialSeat,
	})
}

// leave takes node i out of the cluster.
func (c *nodes) leave(i int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	if err := c.list[i].Leave(ctx); err != nil {
		c.t.Fatal(err)
	}
	if err := c.list[i].Close(); err != nil {
		c.t.Fatal(err)
	}
	c.list[i] = nil
}

// dialSeat starts a node at the first of the last addresses that no other process listens on.
func dialSeat(t testing.TB, address string) backend.Driver {
	t.Helper()
	peers := strings.Fields(address)
	var b *raftleader.Backend
	eventually(t, "there is a free seat", func() bool {
		for _, seat := range slices.Backward(peers[steadyNodes:]) {
			var err error
			b, err = raftleader.Open(t.Context(), raftleader.Config{Addr: seat, Peers: peers, ElectionTimeout: election})
			if err == nil {
				return true
			}
			if backend.KindOf(err) != backend.Misconfigured {
				t.Fatal(err)
			}
		}
		return false
	})
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	ready(t, b)
	return b
}

// ready waits until a node can be used.
func ready(t testing.TB, b *raftleader.Backend) {
	t.Helper()
	err := settled(t, func(ctx context.Context) error {
		_, err := b.Inspect(ctx, "job")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
