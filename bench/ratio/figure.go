package main

import (
	"slices"

	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/internal/testserver"
)

// figure is one line of the output.
type figure struct {
	name string
	contest.Spread
}

// measurement takes some figures together.
type measurement struct {
	figures []string // what take returns
	long    bool
	take    func() ([]figure, error)
}

// backends set up what can be measured on each.
var backends = map[string]func(t testserver.TB, s *settings) []measurement{
	"consul":     consulMeasurements,
	"dynamodb":   dynamoMeasurements,
	"etcd":       etcdMeasurements,
	"hazelcast":  hazelcastMeasurements,
	"kubernetes": kubernetesMeasurements,
	"local":      localMeasurements,
	"mongo":      mongoMeasurements,
	"mysql":      mysqlMeasurements,
	"postgres":   postgresMeasurements,
	"raft":       raftMeasurements,
	"redis":      redisMeasurements,
	"sqlite":     sqliteMeasurements,
	"zookeeper":  zookeeperMeasurements,
}

// rounds takes a figure once in each round.
func rounds(n int, once func() (float64, error)) (contest.Spread, error) {
	values := make([]float64, n)
	for i := range values {
		var err error
		if values[i], err = once(); err != nil {
			return contest.Spread{}, err
		}
	}
	return contest.SpreadOf(values), nil
}

// highest is the Spread of values of which the worst one counts.
func highest(values []float64) contest.Spread {
	if len(values) == 0 {
		return contest.Single(0)
	}
	return contest.Spread{Value: slices.Max(values), Low: slices.Min(values), High: slices.Max(values)}
}
