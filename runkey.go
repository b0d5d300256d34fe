package leader

import (
	"context"
	"errors"
	"time"

	"github.com/goleader/leader/backend"
)

// markTries is how often a run is marked before it is given up.
const markTries = 3

// mark is the note in the store that a run key has been used.
type mark struct {
	h      *hold
	record backend.Record
	made   bool // the store has it, or may have it
}

// newMark prepares the mark of a run under h. Its value is the lease's token, by which a lost answer is recognised.
func newMark(h *hold) *mark {
	set := runSet(h.call.key, h.call.config.runKey)
	return &mark{h: h, record: backend.Record{
		Key: set + "run", Value: []byte(h.token), TTL: h.call.config.runKeep,
	}}
}

// runSet is the set of records, of which there is one, of a run key.
func runSet(key, runKey string) string { return recordSet(key, "run."+escape(runKey)) }

// set marks the run. It reports false if another run has the mark. After an error nothing has run and nothing will,
// and what the store may have of the mark is freed.
func (m *mark) set(ctx context.Context) (ours bool, err error) {
	for try := 1; ; try++ {
		ours, err = m.try(ctx)
		over := m.h.err()
		switch {
		case err == nil && over == nil, err == nil && !ours:
			return ours, nil
		case err == nil:
			err = over
		case try < markTries && over == nil && ctx.Err() == nil && retriable(err):
			pause(ctx, minPause)
			continue
		}
		m.free(ctx)
		return false, err
	}
}

func retriable(err error) bool {
	failure, ok := errors.AsType[*BackendError](err)
	return ok && failure.passing()
}

// try makes one attempt to mark the run.
func (m *mark) try(ctx context.Context) (ours bool, err error) {
	version, err := m.h.e.putRecord(ctx, m.h.call.name, m.record)
	switch {
	case err == nil:
		m.made, m.record.Version = true, version
		return true, nil
	case !errors.Is(err, backend.ErrConflict):
		m.made = true
		return false, err
	}
	return m.find(ctx)
}

// find reports whether the mark that the store has is ours.
func (m *mark) find(ctx context.Context) (ours bool, err error) {
	list, err := m.h.e.getRecords(ctx, m.h.call.name, runSet(m.h.call.key, m.h.call.config.runKey))
	if err != nil {
		return false, err
	}
	for _, r := range list.records {
		if r.Key == m.record.Key && string(r.Value) == string(m.record.Value) {
			m.made, m.record.Version = true, r.Version
			return true, nil
		}
	}
	m.made = false
	return false, nil
}

// freedBy is the action, whose failure frees the mark if the call asks for that.
func (m *mark) freedBy(action Action) Action {
	if !m.h.call.config.rerun {
		return action
	}
	return func(ctx context.Context) error {
		failed := true // also if the action does not return
		defer func() {
			if failed {
				m.free(ctx)
			}
		}()
		err := action(ctx)
		failed = err != nil
		return err
	}
}

// free takes the mark back, at once if the store answers, else in the background until it does or the lease is over.
func (m *mark) free(ctx context.Context) {
	if !m.made {
		return
	}
	ctx = context.WithoutCancel(ctx)
	done := make(chan struct{})
	go func() {
		end := m.h.e.clock.now().add(m.h.ttl())
		err := m.delete(ctx)
		close(done)
		var back backoff
		for err != nil {
			wait := back.next()
			if m.h.e.clock.now().add(wait).reached(end) {
				return
			}
			<-time.After(wait)
			err = m.delete(ctx)
		}
	}()
	await(done, maxAttempt)
}

func (m *mark) delete(ctx context.Context) error {
	if m.record.Version == "" {
		if ours, err := m.find(ctx); err != nil || !ours {
			return err
		}
	}
	err := m.h.e.deleteRecord(ctx, m.h.call.name, m.record)
	if errors.Is(err, backend.ErrConflict) {
		return nil // not ours any more
	}
	return err
}
