package robfigleader_test

import (
	"context"
	"fmt"

	"github.com/robfig/cron/v3"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/schedule/robfigleader"
)

func ExampleJob() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	elector, err := leader.New(local.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	c := cron.New()
	everySecond := cron.Every(1)
	job, err := robfigleader.Job(ctx, c, elector, "report", everySecond, func(context.Context) error {
		fmt.Println("reporting")
		stop() // a service stops when it is asked to
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Schedule(everySecond, job)
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done()
	// Output: reporting
}
