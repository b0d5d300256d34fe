package rig

import (
	"fmt"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/internal/testserver"
)

// GroupRun returns a RunIfLeader of a group whose slots are all free.
func (r *Redis) GroupRun(t testserver.TB, slots int) Op {
	return groupRun(t, r.driver(t, r.client), slots)
}

// LocalGroupRun returns the same on a store in memory.
func LocalGroupRun(t testserver.TB, slots int) Op { return groupRun(t, local.New(), slots) }

func groupRun(t testserver.TB, d backend.Driver, slots int) Op {
	t.Helper()
	group, err := leader.NewGroup(d, slots, options()...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return run(group, fmt.Sprintf("group-of-%d", slots))
}
