package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/key"
)

// seatFormat is the major version of a candidate's record.
const seatFormat = 1

// sitTries is how often a node tries to take its seat while somebody else keeps changing it.
const sitTries = 5

// maxRecord is the longest value of a record.
const maxRecord = 16 << 10

var errForeignSeat = errors.New("the seat has a record of another format")

// seat is a candidate as the store has it. Only the candidate's own node writes it, by compare-and-set.
type seat struct {
	Candidate

	Format        int
	Enrolment     string    // a new one takes the seat over
	ExcludedUntil time.Time // by the store's clock

	version string
}

// readSeat reads a record of a set. What another release wrote in another way is no candidate, nor is what claims to be
// one under another's key.
func readSeat(set string, r backend.Record) (seat, bool) {
	var s seat
	err := json.Unmarshal(r.Value, &s)
	if err != nil || s.Format != seatFormat || s.Node == "" || r.Key != set+key.Escape(s.Node) {
		return seat{}, false
	}
	s.version = r.Version
	return s, true
}

// Membership is an enrolled candidate. Its heartbeat runs until Leave, until the enrolment's ctx ends, or until the node
// is enrolled anew elsewhere. All methods may be called concurrently.
type Membership struct {
	o         *outlook
	node      string
	enrolment string
	replaces  string // the enrolment from which it took the seat over
	key       string
	stop      context.CancelFunc
	ended     chan struct{} // closed when the heartbeat has ended

	writing sync.Mutex // one write at a time; held during a request

	mu   sync.Mutex // after the outlook's
	seat seat       // as it is to be written, with the version that the store has
	err  error
}

// Enroll implements [StrategicElector].
func (s *Strategic) Enroll(ctx context.Context, name string, c Candidate) (*Membership, error) {
	if c.Node == "" {
		c.Node = s.e.config.node
	}
	if err := errors.Join(checkName("name", name), checkName("node", c.Node), checkMetadata(c.Metadata)); err != nil {
		return nil, inv("enroll", err)
	}
	if ctx.Err() != nil {
		return nil, interrupted(ctx, "enroll", name)
	}
	c.Metadata = maps.Clone(c.Metadata)
	o := s.outlook(name)
	m := &Membership{o: o, node: c.Node, key: o.set + key.Escape(c.Node), ended: make(chan struct{})}
	m.enrolment = newToken()
	m.seat = seat{Candidate: c, Format: seatFormat, Enrolment: m.enrolment}
	if err := m.sit(ctx); err != nil {
		return nil, err
	}
	o.seated(m)
	ctx, m.stop = context.WithCancel(ctx)
	go m.beat(ctx)
	return m, nil
}

// sit takes the seat of the node, with all that is known of it, or a new one. Only a node that is enrolled over and over
// makes it try for long.
func (m *Membership) sit(ctx context.Context) error {
	for try := 1; ; try++ {
		v, err := m.o.refresh(ctx)
		if err != nil {
			return err
		}
		m.mu.Lock()
		old, ok := v.find(m.node)
		if ok {
			m.seat.inherit(old)
		} else if m.seat.Registered.IsZero() {
			m.seat.Registered = v.now
		}
		m.seat.version, m.replaces = old.version, old.Enrolment
		m.mu.Unlock()
		if slices.Contains(v.foreign, m.key) {
			return m.o.e.failure("record", m.o.name, backend.WithKind(errForeignSeat, backend.Misconfigured))
		}
		err = m.write(ctx)
		if !errors.Is(err, backend.ErrConflict) {
			return err
		}
		if try == sitTries {
			return m.o.e.failure("record", m.o.name, err)
		}
		pause(ctx, minPause)
	}
}

// inherit takes over what an earlier enrolment of the node has left.
func (s *seat) inherit(old seat) {
	s.Registered, s.LastStart, s.LastFinish, s.LastOK = old.Registered, old.LastStart, old.LastFinish, old.LastOK
	s.Successes, s.Failures, s.ExcludedUntil = old.Successes, old.Failures, old.ExcludedUntil
}

// write stores the seat as it is now, for one candidate TTL.
func (m *Membership) write(ctx context.Context) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	value, err := json.Marshal(&m.seat)
	r := backend.Record{Key: m.key, Version: m.seat.version, Value: value, TTL: m.o.e.config.candidateTTL}
	m.mu.Unlock()
	if err == nil && len(value) > maxRecord {
		err = fmt.Errorf("%w: metadata: %d bytes when encoded, at most %d are allowed",
			ErrInvalidOption, len(value), maxRecord)
	}
	if err != nil {
		return fmt.Errorf("leader: enroll %q: %w", m.o.name, err)
	}
	bounded, cancel := context.WithTimeout(ctx, m.o.heartbeat()/2)
	defer cancel()
	version, err := m.o.e.putRecord(bounded, m.o.name, r)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		return err
	}
	m.seat.version = version
	return nil
}

// beat is the heartbeat. It also keeps the view of the others fresh, and watches whether they take the lease.
func (m *Membership) beat(ctx context.Context) {
	defer close(m.ended)
	defer m.unsit(ctx)
	period := m.o.heartbeat()
	for {
		pause(ctx, period-period/10+rand.N(period/10+1))
		if ctx.Err() != nil {
			return
		}
		err := m.publish(ctx)
		if period = m.o.heartbeat(); err != nil {
			period /= 3
		}
		if errors.Is(err, ErrReplaced) {
			m.mu.Lock()
			m.err = err
			m.mu.Unlock()
			return
		}
		if v, err := m.o.refresh(ctx); err == nil {
			m.o.observe(ctx, v)
		}
	}
}

// publish writes the seat. A conflict is an answer that was lost, a seat that has expired, or somebody who took it over.
func (m *Membership) publish(ctx context.Context) error {
	err := m.write(ctx)
	if !errors.Is(err, backend.ErrConflict) {
		return err
	}
	v, err := m.o.refresh(ctx)
	if err != nil {
		return err
	}
	now, ok := v.find(m.node)
	m.mu.Lock()
	if ok && now.Enrolment != m.seat.Enrolment {
		m.mu.Unlock()
		return ErrReplaced
	}
	m.seat.version = now.version
	m.mu.Unlock()
	return m.write(ctx)
}

// unsit gives up the seat when the heartbeat has ended, unless somebody else has taken it over.
func (m *Membership) unsit(ctx context.Context) {
	m.o.mu.Lock()
	if m.o.member == m {
		m.o.member = nil
	}
	m.o.mu.Unlock()
	m.mu.Lock()
	r := backend.Record{Key: m.key, Version: m.seat.version}
	replaced := m.err != nil
	m.mu.Unlock()
	if replaced {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if err := m.o.e.deleteRecord(ctx, m.o.name, r); !errors.Is(err, backend.ErrConflict) {
		return // it expires otherwise
	}
	if v, err := m.o.refresh(ctx); err == nil && v.has(m) { // the answer to the last heartbeat was lost
		now, _ := v.find(m.node)
		r.Version = now.version
		_ = m.o.e.deleteRecord(ctx, m.o.name, r)
	}
}

// Update publishes new metadata with the next heartbeat. It refuses what [WithMetadata] would.
func (m *Membership) Update(metadata map[string]string) error {
	if err := checkMetadata(metadata); err != nil {
		return inv("update", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seat.Metadata = maps.Clone(metadata)
	return nil
}

// Err is [ErrReplaced] if the node was enrolled anew elsewhere, else nil.
func (m *Membership) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Leave ends the enrolment. It waits until the store was told, or until ctx ends; the seat expires otherwise.
func (m *Membership) Leave(ctx context.Context) error {
	m.stop()
	select {
	case <-m.ended:
		return nil
	case <-ctx.Done():
		return interrupted(ctx, "leave", m.o.name)
	}
}

// now is the store's clock, as far as this node can tell.
func (m *Membership) now() time.Time {
	m.o.mu.Lock()
	v := m.o.view
	m.o.mu.Unlock()
	if v == nil {
		return time.Now()
	}
	return v.time(m.o.e.clock.now())
}

func (m *Membership) started() {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seat.LastStart = now
}

// finished counts a run; one that its caller cancelled is neither a success nor a failure.
func (m *Membership) finished(ctx context.Context, err error) {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seat.LastFinish = now
	switch {
	case err == nil:
		m.seat.LastOK = now
		m.seat.Successes++
	case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))):
	default:
		m.seat.Failures++
	}
}

func (m *Membership) excludedUntil() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seat.ExcludedUntil
}

// sitOut lets others be preferred for one candidate TTL, and tells them before the lease is released.
func (m *Membership) sitOut(ctx context.Context) {
	until := m.now().Add(m.o.e.config.candidateTTL)
	m.mu.Lock()
	m.seat.ExcludedUntil = until
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxAttempt)
	defer cancel()
	_ = m.publish(ctx) // else with the next heartbeat
}
