package promleader_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/metrics/promleader"
)

func ExampleNew() {
	collector := promleader.New(nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	elector, err := leader.New(local.New(), leader.WithHooks(collector.Hooks()))
	if err != nil {
		panic(err)
	}
	for range 3 {
		_, err := elector.RunIfLeader(context.Background(), "report", func(context.Context) error { return nil })
		if err != nil {
			panic(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		if family.GetName() == "leader_leases_acquired_total" {
			fmt.Println(family.GetMetric()[0].GetCounter().GetValue(), "leases were acquired")
		}
	}
	// Output: 3 leases were acquired
}
