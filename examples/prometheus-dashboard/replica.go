package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/goleader/leader"
)

const (
	reportName  = "report"
	serviceName = "service"
	period      = time.Second // of the report
)

// replica is one of several processes that do the same.
type replica struct{ elector leader.Elector }

var errReport = errors.New("the report could not be sent")

// report is a job that is due on all replicas every second, and done by one of them.
func (r replica) report(ctx context.Context) {
	due := time.NewTicker(period)
	defer due.Stop()
	for {
		_, err := r.elector.RunIfLeader(ctx, reportName, work)
		if err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "no report", "err", err)
		}
		select {
		case <-due.C:
		case <-ctx.Done():
			return
		}
	}
}

// work takes about a third of the period, and fails now and then. What becomes of it is in metrics and history.
func work(ctx context.Context) error {
	select {
	case <-time.After(period/6 + rand.N(period/3)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if *fails > 0 && rand.N(*fails) == 0 {
		return errReport
	}
	return nil
}

// serve leads the service whenever this replica can, a term at a time.
func (r replica) serve(ctx context.Context) {
	err := r.elector.Campaign(ctx, serviceName, func(ctx context.Context) error {
		select {
		case <-time.After(*term):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, leader.WithRequeue(), leader.WithMetadata(map[string]string{"listens on": *listen}))
	if err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "the service has no leader from here any more", "err", err)
	}
}
