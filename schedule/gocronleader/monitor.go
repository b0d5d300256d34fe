package gocronleader

import (
	"errors"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
)

// FailuresTo is a listener that has m count a run as failed if the store could not be asked for its lock. gocron itself
// counts it as skipped, like one that others have. The count is without the job's tags, which gocron does not tell. It is
// for gocron.WithEventListeners; gocron keeps one listener of the kind for each job.
func FailuresTo(m gocron.Monitor) gocron.EventListener {
	return gocron.AfterLockError(func(id uuid.UUID, name string, err error) {
		if _, skipped := errors.AsType[*SkippedError](err); !skipped {
			m.IncrementJob(id, name, nil, gocron.Fail)
		}
	})
}
