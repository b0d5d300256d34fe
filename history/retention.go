package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// chunk is how many rows are deleted at once, about.
const chunk = 1000

// Retention says what is kept of a history. Zero means no bound.
type Retention struct {
	// MaxAge is how long records are kept, counted from when they were written last: at the end of the run, or at its
	// start while it has not ended.
	MaxAge time.Duration
	// MaxPerName is how many records of each name are kept, at least one: those that were written last.
	MaxPerName int
}

// retention are the statements of Prune.
type retention struct{ endOfChunk, deleteTo, deleteOld, crowdedNames, lastKept, deleteBefore string }

func newRetention(say func(text string) string) retention {
	return retention{
		endOfChunk: say(endOfChunk), deleteTo: say(deleteTo), deleteOld: say(deleteOld),
		crowdedNames: say(crowdedNames), lastKept: say(lastKept), deleteBefore: say(deleteBefore),
	}
}

// Prune deletes what is not to be kept, and returns how many records that were, also with an error. A run that is deleted
// while it is Running is recorded again at its end. Nothing prunes by itself: call it now and then, on one node, which is
// a job for RunIfLeader. Age is judged by the local clock. ctx governs the statements.
func (s *SQL) Prune(ctx context.Context, keep Retention) (deleted int64, err error) {
	if keep.MaxAge < 0 || keep.MaxPerName < 0 {
		return 0, fmt.Errorf("history: prune: a retention must not be negative: %+v", keep)
	}
	if keep.MaxAge > 0 {
		deleted, err = s.pruneByAge(ctx, time.Now().Add(-keep.MaxAge).UnixMicro())
	}
	if keep.MaxPerName > 0 && err == nil {
		var more int64
		more, err = s.pruneByCount(ctx, keep.MaxPerName)
		deleted += more
	}
	if err != nil {
		return deleted, fmt.Errorf("history: prune: %w", err)
	}
	return deleted, nil
}

func (s *SQL) pruneByAge(ctx context.Context, cutoff int64) (deleted int64, err error) {
	for {
		var end int64
		err = s.db.QueryRowContext(ctx, s.retention.endOfChunk, cutoff, chunk-1).Scan(&end)
		if errors.Is(err, sql.ErrNoRows) {
			break
		}
		if err != nil {
			return deleted, err
		}
		n, err := s.delete(ctx, s.retention.deleteTo, end)
		deleted += n
		if err != nil {
			return deleted, err
		}
	}
	n, err := s.delete(ctx, s.retention.deleteOld, cutoff)
	return deleted + n, err
}

func (s *SQL) pruneByCount(ctx context.Context, keep int) (deleted int64, err error) {
	names, err := s.crowdedNames(ctx, keep)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		var written int64
		var id string
		err := s.db.QueryRowContext(ctx, s.retention.lastKept, name, keep-1).Scan(&written, &id)
		if errors.Is(err, sql.ErrNoRows) {
			continue // somebody else prunes as well
		}
		if err != nil {
			return deleted, err
		}
		n, err := s.delete(ctx, s.retention.deleteBefore, name, written, written, id)
		deleted += n
		if err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// crowdedNames are the names of more records than are kept.
func (s *SQL) crowdedNames(ctx context.Context, keep int) (names []string, err error) {
	rows, err := s.db.QueryContext(ctx, s.retention.crowdedNames, keep)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

func (s *SQL) delete(ctx context.Context, statement string, args ...any) (int64, error) {
	result, err := s.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
