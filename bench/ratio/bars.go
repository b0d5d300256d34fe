package main

import (
	"errors"
	"fmt"
	"io"
)

// bar is what a figure has to reach.
type bar struct {
	backend, figure string
	atMost          bool // else at least
	limit           float64
}

func (b bar) met(value float64) bool {
	if b.atMost {
		return value <= b.limit
	}
	return value >= b.limit
}

// level is what counts as no slower than a peer.
const level = 1 / 1.05

var bars = []bar{
	{"local", "run/cancelcause", true, 4},
	{"local", "allocs_per_run", true, 5},
	{"redis", "run/floor", true, 1.15},
	{"redis", "run/setnx", true, 1.60},
	{"redis", "peer:redsync/ours", false, 1},
	{"redis", "peer:rueidislock/ours", false, 1},
	{"redis", "peer:redislock/ours", false, 1 / 1.30}, // it has no fence
	{"redis", "skip/floor", true, 1.10},
	{"redis", "handoff/raw", true, 2.5},
	{"redis", "group/single", true, 1.25},
	{"redis", "observed/run", true, 1.05},
	{"redis", "strategic_requests", true, 3},
	{"redis", "strategic_skip_requests", true, 0},
	{"redis", "list1000_ms", true, 10},
	{"redis", "renew10k_lost", true, 0},
	{"redis", "renew10k_bytes_per_lease", true, 4096},
	{"redis", "renew10k_goroutines", true, 99},
	{"redis", "waiters1000_cpu_percent", true, 1},
	{"postgres", "run/floor", true, 1.15},
	{"postgres", "run/naive", true, 1.25},
	{"postgres", "skip/floor", true, 1.10},
	{"postgres", "handoff/raw", true, 2.5},
	{"postgres", "renew2k_lost", true, 0},
	{"postgres", "renew2k_connections", true, 4},
	{"mongo", "run/floor", true, 1.25},
	{"mongo", "skip/floor", true, 1.10},
	{"mysql", "run/floor", true, 1.15},
	{"mysql", "skip/floor", true, 1.10},
	{"etcd", "run/floor", true, 1.15},
	{"etcd", "skip/floor", true, 1.10},
	{"etcd", "handoff/raw", true, 2.5},
	{"etcd", "peer:mutex/ours", false, level},
	{"etcd", "peer:election/ours", false, level},
	{"etcd", "renew2k_lost", true, 0},
	{"consul", "run/floor", true, 1.15},
	{"consul", "skip/floor", true, 1.10},
	{"consul", "handoff/raw", true, 2.5},
	{"consul", "peer:lock/ours", false, level},
	{"zookeeper", "run/floor", true, 1.15},
	{"zookeeper", "skip/floor", true, 1.10},
	{"zookeeper", "handoff/raw", true, 2.5},
	{"zookeeper", "peer:lock/ours", false, level},
	{"kubernetes", "run/floor", true, 1.15},
	{"kubernetes", "skip/floor", true, 1.10},
	{"kubernetes", "handoff/raw", true, 2.5},
	{"kubernetes", "peer:clientgo/ours", false, level},
	{"dynamodb", "run/floor", true, 1.15},
	{"dynamodb", "skip/floor", true, 1.10},
	{"hazelcast", "run/floor", true, 1.15},
	{"hazelcast", "run/put_remove", true, 2},
	{"hazelcast", "skip/floor", true, 1.15},
	{"hazelcast", "handoff/raw", true, 2.5},
	{"raft", "run/entry", true, 2.2},
	{"raft", "handoff/raw", true, 2.5},
}

var errMissed = errors.New("a bar was missed")

// check prints for each figure that has a bar whether it was met.
func check(out io.Writer, backend string, taken []figure) error {
	var err error
	for _, f := range taken {
		for _, b := range bars {
			if b.backend != backend || b.figure != f.name {
				continue
			}
			verdict, relation := "PASS", ">="
			if b.atMost {
				relation = "<="
			}
			if !b.met(f.Value) {
				verdict, err = "MISS", errMissed
			}
			fmt.Fprintf(out, "%s %s %s %s %s %s\n", verdict, backend, f.name, short(f.Value), relation, short(b.limit))
		}
	}
	return err
}
