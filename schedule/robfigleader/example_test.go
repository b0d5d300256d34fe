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

// With a wrapper, others can be in the chain, which run where the job runs.
func ExampleWrapper() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	elector, err := leader.New(local.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	c := cron.New()
	everySecond := cron.Every(1)
	elected, err := robfigleader.Wrapper(ctx, c, elector, "report", everySecond)
	if err != nil {
		fmt.Println(err)
		return
	}
	report := cron.FuncJob(func() {
		fmt.Println("reporting")
		stop()
		panic("out of paper")
	})
	c.Schedule(everySecond, cron.NewChain(elected, cron.Recover(cron.DiscardLogger)).Then(report))
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done()
	// Output: reporting
}
