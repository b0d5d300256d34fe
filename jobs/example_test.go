package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/jobs"
)

func ExampleNew() {
	elector, err := leader.New(local.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	var config jobs.Config
	err = json.Unmarshal([]byte(`{
		"service": "shop",
		"lease": "PT30S",
		"jobs": [{"name": "report", "every": "20ms"}]
	}`), &config)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	table, err := jobs.New(elector, config, map[string]leader.Action{
		"report": func(ctx context.Context) error {
			lease, _ := leader.LeaseFrom(ctx)
			fmt.Println("running as", lease.Info().Name)
			stop() // a service stops when it is asked to
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ended:", table.Run(ctx))
	// Output:
	// running as shop:report
	// ended: <nil>
}

func ExampleNew_wrong() {
	elector, err := leader.New(local.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = jobs.New(elector, jobs.Config{
		Service: "shop",
		Jobs: []jobs.Job{
			{Name: "report", Every: "1 minute"},
			{Name: "cleanup"},
		},
	}, map[string]leader.Action{"report": func(context.Context) error { return nil }})
	fmt.Println(err)
	// Output:
	// jobs: invalid configuration:
	// job "report": every: "1 minute" is no duration, such as 1m30s or PT1M30S
	// job "cleanup" has no action; there are [report]
	// job "cleanup": needs one of every, delay and cron, and has 0
}
