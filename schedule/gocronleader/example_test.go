package gocronleader_test

import (
	"context"
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
