package schedule_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/schedule"
)

// Two nodes run one job, and each fire time is run once. What became of it is reported on both.
func ExampleNew() {
	store := local.New()
	reports := make(chan string, 2)
	nodes := map[string]*schedule.Job{}
	for _, node := range []string{"node-a", "node-b"} {
		elector, err := leader.New(store, leader.WithNodeID(node))
		if err != nil {
			log.Fatal(err)
		}
		nodes[node], err = schedule.New(elector, "report", schedule.Every(time.Minute),
			func(context.Context) error { return nil },
			schedule.WithMissed(schedule.RunOnce),
			schedule.WithRunOptions(leader.WithLeaseTime(30*time.Second)),
			schedule.WithReport(func(_ context.Context, t schedule.Tick) {
				reports <- fmt.Sprint(node, " ", t.Result.Outcome, " ", t.Err)
			}),
		)
		if err != nil {
			log.Fatal(err)
		}
	}
	// A service calls Run, which waits for fire times. Here is one that has come.
	fire, _ := schedule.Latest(schedule.Every(time.Minute), time.Now())
	for _, node := range []string{"node-a", "node-b"} {
		nodes[node].RunFor(context.Background(), fire)
		fmt.Println(<-reports)
	}
	// Output:
	// node-a Elected <nil>
	// node-b Skipped <nil>
}

// The fire times of a fixed rate are the same on all nodes, whenever they were started.
func ExampleEvery() {
	started := time.Date(2024, 2, 29, 12, 34, 56, 0, time.UTC)
	fmt.Println(schedule.Every(15 * time.Minute).Next(started).Format(time.TimeOnly))
	// Output: 12:45:00
}

// A schedule is anything that says what comes next, such as what a parser of cron expressions returns.
func ExampleFunc() {
	newYear := schedule.Func(func(t time.Time) time.Time {
		return time.Date(t.Year()+1, 1, 1, 0, 0, 0, 0, t.Location())
	})
	fmt.Println(newYear.Next(time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)).Format(time.DateOnly))
	// Output: 2025-01-01
}

// What is due at half past two is due once in the night in which clocks show that time twice, and once in the one in which
// they leave it out.
func ExampleIn() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	halfPastTwo := schedule.In(berlin, schedule.Func(func(t time.Time) time.Time {
		due := time.Date(t.Year(), t.Month(), t.Day(), 2, 30, 0, 0, t.Location())
		if !due.After(t) {
			due = time.Date(t.Year(), t.Month(), t.Day()+1, 2, 30, 0, 0, t.Location())
		}
		return due
	}))
	for _, evening := range []time.Time{
		time.Date(2024, 3, 30, 20, 0, 0, 0, berlin),
		time.Date(2024, 10, 26, 20, 0, 0, 0, berlin),
	} {
		first := halfPastTwo.Next(evening)
		fmt.Println(first, "and then", halfPastTwo.Next(first).Format(time.DateOnly))
	}
	// Output:
	// 2024-03-31 03:00:00 +0200 CEST and then 2024-04-01
	// 2024-10-27 02:30:00 +0200 CEST and then 2024-10-28
}

// With a delay there is always one node that works or pauses.
func ExampleDelay() {
	elector, err := leader.New(local.New())
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	runs := 0
	err = schedule.Run(ctx, elector, "poll", schedule.Delay(5*time.Millisecond), func(context.Context) error {
		if runs++; runs == 3 {
			stop()
		}
		return nil
	})
	fmt.Println(runs, err)
	// Output: 3 <nil>
}
