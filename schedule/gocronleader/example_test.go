package gocronleader_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/schedule"
	"github.com/goleader/leader/schedule/gocronleader"
)

func Example() {
	store := local.New()
	ran := make(chan string, 100)
	var schedulers []gocron.Scheduler
	for _, node := range []string{"a", "b", "c"} {
		scheduler, err := newScheduler(store, node, ran)
		if err != nil {
			fmt.Println(err)
			return
		}
		scheduler.Start()
		schedulers = append(schedulers, scheduler)
	}
	seen := make(map[string]bool)
	for range 3 {
		tick := <-ran
		fmt.Println("again:", seen[tick])
		seen[tick] = true
	}
	for _, scheduler := range schedulers {
		if err := scheduler.Shutdown(); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// again: false
	// again: false
	// again: false
}

// With an elector, one node runs all jobs for as long as it leads.
func ExampleElector() {
	single, err := leader.New(local.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	elector := gocronleader.NewElector(single, "scheduler")
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		fmt.Println(err)
		return
	}
	ran := make(chan bool, 100)
	_, err = scheduler.NewJob(
		gocron.DurationJob(50*time.Millisecond),
		gocron.NewTask(elector.Task(func(ctx context.Context) error {
			_, led := leader.LeaseFrom(ctx)
			ran <- led
			return nil
		})),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- elector.Run(ctx) }()
	scheduler.Start()
	fmt.Println("under a lease:", <-ran)
	if err := scheduler.Shutdown(); err != nil {
		fmt.Println(err)
	}
	stop() // when the jobs have ended
	fmt.Println(errors.Is(<-ended, context.Canceled))
	// Output:
	// under a lease: true
	// true
}

// newScheduler is what each node of a service has.
func newScheduler(store *local.Backend, node string, ran chan<- string) (gocron.Scheduler, error) {
	elector, err := leader.New(store, leader.WithNodeID(node))
	if err != nil {
		return nil, err
	}
	const period = 100 * time.Millisecond
	locker, err := gocronleader.NewLocker(elector, schedule.Every(period))
	if err != nil {
		return nil, err
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return nil, err
	}
	_, err = scheduler.NewJob(
		gocron.DurationJob(period),
		gocron.NewTask(locker.Task("report", func(ctx context.Context) error {
			fire, _ := schedule.FireTime(ctx)
			ran <- fire.String()
			return nil
		})),
		gocron.WithName("report"),
	)
	return scheduler, err
}
