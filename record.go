package leader

import (
	"context"
	"errors"
	"time"

	"github.com/goleader/leader/backend"
)

// recordSet is the prefix of the keys of a kind of records of a name.
func recordSet(key, kind string) string { return key + "!" + kind + "/" }

// putRecord stores a record; the outcome is unknown unless the error is nil or ErrConflict.
func (e *engine) putRecord(ctx context.Context, name string, r backend.Record) (version string, err error) {
	return askRecords(ctx, e, name, func(ctx context.Context) (string, error) { return e.records.PutRecord(ctx, r) })
}

// deleteRecord deletes a record of that version.
func (e *engine) deleteRecord(ctx context.Context, name string, r backend.Record) error {
	_, err := askRecords(ctx, e, name, errorOnly(func(ctx context.Context) error { return e.records.DeleteRecord(ctx, r) }))
	return err
}

// listing is what GetRecords answers.
type listing struct {
	records []backend.Record
	now     time.Time // by the store's clock, or, if it has none, by ours
}

func (e *engine) getRecords(ctx context.Context, name, set string) (listing, error) {
	return askRecords(ctx, e, name, func(ctx context.Context) (listing, error) {
		list, now, err := e.records.GetRecords(ctx, set)
		if now.IsZero() {
			now = time.Now()
		}
		return listing{list, now}, err
	})
}

// askRecords makes one bounded request about records. Conflicts are returned as they are, all else as a *BackendError,
// unless ctx ended.
func askRecords[T any](ctx context.Context, e *engine, name string, send func(ctx context.Context) (T, error)) (T, error) {
	bounded, cancel := context.WithTimeout(ctx, maxAttempt)
	defer cancel()
	v, err := ask(bounded, e, request[T]{send: send})
	switch {
	case err == nil, errors.Is(err, backend.ErrConflict):
		return v, err
	case ctx.Err() != nil:
		return v, interrupted(ctx, "record", name)
	}
	return v, e.failure("record", name, err)
}
