package command

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/cmd/leaderctl/internal/redact"
	"github.com/goleader/leader/cmd/leaderctl/internal/store"
)

// lateDriver is one whose answer, that a lease has changed meanwhile, comes when the time for the question is over.
type lateDriver struct {
	*local.Backend

	end context.CancelFunc
}

func (d lateDriver) Break(context.Context, string, uint64) error {
	d.end()
	return backend.ErrConflict
}

func (d lateDriver) DeleteRecord(ctx context.Context, r backend.Record) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return d.Backend.DeleteRecord(ctx, r)
}

func TestRelease_ThatWasRefusedLateLeavesNoRecord(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	driver := lateDriver{local.New(), cancel}
	lease, err := driver.TryAcquire(ctx, backend.Request{Key: "job", Token: "a-token", Owner: "n1", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	tl := &tool{out: io.Discard, err: io.Discard, errLines: io.Discard, secrets: new(redact.Secrets)}
	s := &store.Store{Driver: driver}
	_, err = tl.release(ctx, s, "job", &releaseFlags{fence: lease.Fence(), slot: -1})
	if e, ok := errors.AsType[*exitError](err); !ok || e.code != exitNotCurrent {
		t.Errorf("got %v", err)
	}
	if list, err := tl.forcedReleases(t.Context(), s, "job"); err != nil || len(list) > 0 {
		t.Errorf("there are %+v, %v", list, err)
	}
}
