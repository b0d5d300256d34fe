package leader

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/key"
)

// markTries is how often a run is marked before it is given up.
const markTries = 3

// mark is the note in the store that a run key has been used. Its value is the token of the run's lease, by which a lost
// answer is recognised. A mark that was taken back has no value and stays for one lease, so that a request to mark which
// arrives late does not burn the key.
type mark struct {
	h      *hold
	set    string // the set of records, of which there is one
	record backend.Record
	asked  bool // the store has it, or may have it
}

// newMark prepares the mark of a run under h.
func newMark(h *hold) *mark {
	set := recordSet(h.call.key, "run."+key.Escape(h.call.config.runKey))
	return &mark{h: h, set: set, record: backend.Record{
		Key: set + "run", Value: []byte(h.token), TTL: h.call.config.runKeep,
	}}
}

// make marks the run. It reports false if another run has the mark. After an error nothing has run and nothing will, and
// what the store may have of the mark is taken back.
func (m *mark) make(ctx context.Context) (ours bool, err error) {
	for try := 1; ; try++ {
		ours, err = m.try(ctx)
		over := m.h.err()
		switch {
		case err == nil && !ours:
			return false, nil
		case ctx.Err() != nil:
			err = interrupted(ctx, "record", m.h.call.name)
		case over != nil:
			err = over
		case err == nil:
			return true, nil
		case try < markTries && retriable(err):
			pause(ctx, minPause)
			continue
		}
		m.takeBack(ctx)
		return false, err
	}
}

func retriable(err error) bool {
	failure, ok := errors.AsType[*BackendError](err)
	return errors.Is(err, backend.ErrConflict) || ok && failure.passing()
}

// try makes one attempt to mark the run. A conflict says that the mark has changed since it was looked at.
func (m *mark) try(ctx context.Context) (ours bool, err error) {
	m.asked = true
	err = m.put(ctx, m.record.Value, m.record.TTL)
	if !errors.Is(err, backend.ErrConflict) {
		return err == nil, err
	}
	found, findErr := m.find(ctx)
	switch {
	case findErr != nil:
		return false, findErr
	case found == nil:
		m.record.Version = "" // it was deleted, or has expired, meanwhile
		return false, m.h.e.failure("record", m.h.call.name, err)
	case len(found.Value) == 0:
		m.record.Version = found.Version
		return true, m.put(ctx, m.record.Value, m.record.TTL)
	case slices.Equal(found.Value, m.record.Value):
		m.record.Version = found.Version
		return true, nil
	}
	m.asked = false
	return false, nil
}

// put stores a value over the version that is known.
func (m *mark) put(ctx context.Context, value []byte, ttl time.Duration) error {
	r := m.record
	r.Value, r.TTL = value, ttl
	version, err := m.h.e.putRecord(ctx, m.h.call.name, r)
	if err == nil {
		m.record.Version = version
	}
	return err
}

// find returns the mark that the store has, nil if there is none.
func (m *mark) find(ctx context.Context) (*backend.Record, error) {
	list, err := m.h.e.getRecords(ctx, m.h.call.name, m.set)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list.records, func(r backend.Record) bool { return r.Key == m.record.Key })
	if i < 0 {
		return nil, nil //nolint:nilnil // no mark is no error
	}
	return &list.records[i], nil
}

// takenBackBy is the action, whose failure takes the mark back if the call asks for that.
func (m *mark) takenBackBy(action Action) Action {
	if !m.h.call.config.rerun {
		return action
	}
	return func(ctx context.Context) error {
		failed := true // also if the action does not return
		defer func() {
			if failed {
				m.takeBack(ctx)
			}
		}()
		err := action(ctx)
		failed = err != nil
		return err
	}
}

// takeBack frees the key, at once if the store answers, else in the background until it does or the lease is over.
func (m *mark) takeBack(ctx context.Context) {
	if m.asked {
		await(m.h.e.insist(ctx, m.h.ttl(), m.clear), maxAttempt)
	}
}

// clear leaves a mark without a value, unless another run has the mark.
func (m *mark) clear(ctx context.Context) error {
	found, err := m.find(ctx)
	switch {
	case err != nil:
		return err
	case found == nil:
		m.record.Version = ""
	case len(found.Value) == 0 && found.Version == m.record.Version:
		// A request to write over this very version may still arrive.
	case len(found.Value) == 0 || !slices.Equal(found.Value, m.record.Value):
		return nil
	default:
		m.record.Version = found.Version
	}
	return m.put(ctx, nil, m.h.ttl())
}
