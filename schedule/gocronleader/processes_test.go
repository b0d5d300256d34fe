package gocronleader_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
	"github.com/goleader/leader/schedule"
	"github.com/goleader/leader/schedule/gocronleader"
	"github.com/goleader/leader/schedule/internal/tickstest"
)

func TestMain(m *testing.M) { tickstest.Main(m, replica) }

// replica is one process with a scheduler.
func replica(ctx context.Context, r *tickstest.Replica) error {
	b, err := sqliteleader.Open(r.Store, nil)
	if err != nil {
		return err
	}
	defer b.Close()
	elector, err := leader.New(b, leader.WithLeaseTime(tickstest.Lease))
	if err != nil {
		return err
	}
	locker, err := gocronleader.NewLocker(elector, schedule.Every(tickstest.Period))
	if err != nil {
		return err
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker), gocron.WithStopTimeout(10*time.Second))
	if err != nil {
		return err
	}
	_, err = scheduler.NewJob(
		gocron.DurationJob(tickstest.Period),
		gocron.NewTask(locker.Task(tickstest.Name, r.Job)),
		gocron.WithName(tickstest.Name),
	)
	if err != nil {
		return err
	}
	scheduler.Start()
	if err := r.Ready(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return scheduler.Shutdown()
}

func TestLocker_ThreeReplicasAndAShortJob_RunEachTickOnce(t *testing.T) { tickstest.EachOnce(t) }

func TestLocker_AReplicaIsKilledInMidRun_NoTickTwiceAndNoneMissingAfterTheNext(t *testing.T) {
	tickstest.Killed(t)
}
