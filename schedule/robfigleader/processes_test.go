package robfigleader_test

import (
	"context"
	"testing"

	"github.com/robfig/cron/v3"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
	"github.com/goleader/leader/schedule/internal/tickstest"
	"github.com/goleader/leader/schedule/robfigleader"
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
	c := cron.New()
	when := cron.Every(tickstest.Period)
	job, err := robfigleader.Job(ctx, c, elector, tickstest.Name, when, r.Job)
	if err != nil {
		return err
	}
	c.Schedule(when, job)
	c.Start()
	if err := r.Ready(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	<-c.Stop().Done()
	return nil
}

func TestJob_ThreeReplicasAndAShortJob_RunEachTickOnce(t *testing.T) { tickstest.EachOnce(t) }

func TestJob_AReplicaIsKilledInMidRun_NoTickTwiceAndNoneMissingAfterTheNext(t *testing.T) {
	tickstest.Killed(t)
}
