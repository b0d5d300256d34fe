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
