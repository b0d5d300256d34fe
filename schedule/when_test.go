package schedule_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/schedule"
)

func day(hour, minute int) time.Time { return time.Date(2026, 11, 29, hour, minute, 0, 0, time.UTC) }

func TestEvery_Next_IsTheNextMultipleOfThePeriod(t *testing.T) {
	for _, c := range []struct {
		every    time.Duration
		at, want time.Time
	}{
		{time.Hour, day(9, 5), day(10, 0)},
		{time.Hour, day(9, 0), day(10, 0)},
		{24 * time.Hour, day(9, 0).In(time.FixedZone("", 5*3600)), day(24, 0)},
	} {
		if got := schedule.Every(c.every).Next(c.at); !got.Equal(c.want) {
			t.Errorf("every %v, the next after %v is %v, want %v", c.every, c.at, got, c.want)
		}
	}
}

// leapDays is due at the noon of every 29th of February.
func leapDays(t time.Time) time.Time {
	for year := t.Year(); ; year++ {
		if fire := time.Date(year, 2, 29, 12, 0, 0, 0, time.UTC); fire.Month() == time.February && fire.After(t) {
			return fire
		}
	}
}

func TestLatest_IsTheNewestFireTimeUpToThen(t *testing.T) {
	irregular := schedule.Func(func(t time.Time) time.Time {
		for _, fire := range []time.Time{day(0, 0), day(1, 0), day(12, 0)} {
			if fire.After(t) {
				return fire
			}
		}
		return time.Time{}
	})
	minutes := schedule.Func(schedule.Every(time.Minute).Next)
	leap := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		s        schedule.Schedule
		at, want time.Time
	}{
		{schedule.Every(time.Hour), day(9, 5), day(9, 0)},
		{schedule.Every(time.Hour), day(9, 0), day(9, 0)},
		{minutes, day(9, 5), day(9, 5)},
		{minutes, day(9, 5).Add(-1), day(9, 4)},
		{irregular, day(0, 59), day(0, 0)},
		{irregular, day(11, 59), day(1, 0)},
		{irregular, day(12, 0).AddDate(1, 0, 0), day(12, 0)},
		{schedule.Func(leapDays), day(0, 0), leap},
	} {
		if got, found := schedule.Latest(c.s, c.at); !found || !got.Equal(c.want) {
			t.Errorf("%T: the latest up to %v is %v, want %v", c.s, c.at, got, c.want)
		}
	}
	if got, found := schedule.Latest(irregular, day(0, 0).Add(-1)); found {
		t.Errorf("before the first fire time comes %v", got)
	}
}

func ExampleRun() {
	elector, err := leader.New(local.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	err = schedule.Run(ctx, elector, "report", schedule.Every(10*time.Millisecond), func(ctx context.Context) error {
		fire, _ := schedule.FireTime(ctx)
		fmt.Println("for a multiple of 10 ms:", fire.Equal(fire.Truncate(10*time.Millisecond)))
		stop() // a service stops when it is asked to
		return nil
	})
	fmt.Println("ended:", err)
	// Output:
	// for a multiple of 10 ms: true
	// ended: <nil>
}
