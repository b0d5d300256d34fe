package backendtest

import (
	"errors"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

// A faultyStore is an in-memory store that commits one sin, and none if sin is empty. It reads as a correct store does;
// each sin is one deviation.
type faultyStore struct {
	tb       testing.TB
	sin      string
	blocking bool // its calls outlive their context while the connection is frozen, and it says so

	mu      sync.Mutex
	records map[string]*faultyRecord
	values  map[string]*faultyValue
	puts    int                      // for versions
	extra   map[string]int           // slots beyond n, by group, for a sin
	first   map[string]int           // the first n, by group, for a sin
	waiters map[chan struct{}]string // subscribed, by key
	refused int                      // losing attempts
	reborn  bool                     // it was restarted
	clients []*faultyDriver
	stopped chan struct{} // ends what a sin leaves running
}

// A faultyRecord is free once until has passed.
type faultyRecord struct {
	token, spent, owner string
	fence               uint64
	since, until        time.Time
	kept                bool
	metadata            map[string]string
	seen                int
	damage              Damage
	broken              bool
	over                chan struct{} // closed when the lease ends other than by its TTL
}

// No sins.
const (
	blocking = "is Blocking"
	plain    = "offers no ability"
)

var errHarmed = errors.New("the record cannot be read")

// openFaulty returns the Open, Partition, Restart and Corrupt of stores with a sin.
func openFaulty(sin string, ttl time.Duration) Config {
	var mu sync.Mutex
	var newest *faultyStore
	store := func() *faultyStore {
		mu.Lock()
		defer mu.Unlock()
		return newest
	}
	return Config{
		Open: func(t testing.TB, n int) []backend.Driver {
			s := newFaultyStore(t, sin)
			s.blocking = sin == blocking
			mu.Lock()
			newest = s
			mu.Unlock()
			return s.open(n)
		},
		Fidelity:  Embedded,
		TTL:       ttl,
		Skew:      time.Millisecond,
		Partition: func(_ testing.TB, i int) func() { return store().clients[i].freeze() },
		Restart:   func(testing.TB) { store().restart() },
		Corrupt:   func(_ testing.TB, key string, how Damage) { store().corrupt(key, how) },
	}
}

func newFaultyStore(t testing.TB, sin string) *faultyStore {
	s := &faultyStore{
		tb:      t,
		sin:     sin,
		records: make(map[string]*faultyRecord),
		values:  make(map[string]*faultyValue),
		extra:   make(map[string]int),
		first:   make(map[string]int),
		waiters: make(map[chan struct{}]string),
		stopped: make(chan struct{}),
	}
	t.Cleanup(func() { close(s.stopped) })
	return s
}

// open returns n clients. Each is reached through a decorator, as a driver may be.
func (s *faultyStore) open(n int) []backend.Driver {
	drivers := make([]backend.Driver, n)
	for i := range drivers {
		d := &faultyDriver{faultyStore: s, closed: make(chan struct{})}
		if i > 0 && s.sin == "clients do not see each other" {
			d.faultyStore = newFaultyStore(s.tb, "")
		}
		s.clients = append(s.clients, d)
		drivers[i] = decorated{d}
		if s.sin == plain {
			drivers[i] = bare{d}
		}
	}
	return drivers
}

type decorated struct{ backend.Driver }

// bare hides what is no part of a Driver.
type bare struct{ backend.Driver }

func (d decorated) Unwrap() backend.Driver { return d.Driver }

// freeze stops what goes through one client until the returned function is called.
func (d *faultyDriver) freeze() (heal func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wasFrozen = true
	frozen := make(chan struct{})
	d.frozen = frozen
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.sin != "stays broken after a partition" {
			d.frozen = nil
		}
		close(frozen)
	})
}

// restart keeps every record.
func (s *faultyStore) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sin == "restarts the fence with the store" || s.sin == "trusts a lease that a restart forgot" {
		clear(s.records)
	}
	if s.sin == "a restart forgets records" {
		clear(s.values)
	}
	s.reborn = true
}

func (s *faultyStore) corrupt(key string, how Damage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key = s.mapped(key)
	if how == Deleted {
		delete(s.records, key)
		return
	}
	if s.records[key] == nil {
		s.records[key] = &faultyRecord{}
	}
	s.records[key].damage = how
}

// record returns the record of key, nil if there is none. s.mu is held.
func (s *faultyStore) record(key string) (*faultyRecord, error) {
	r := s.records[key]
	if r == nil || r.damage == 0 {
		return r, nil
	}
	switch {
	case s.sin == "overwrites a garbled record" && r.damage == Garbled,
		s.sin == "overwrites a foreign type" && r.damage == WrongType:
		return nil, nil //nolint:nilnil // no record, no error
	case s.sin == "reads a newer major version" && r.damage == NewerMajor:
		return r, nil
	}
	return nil, backend.WithKind(errHarmed, backend.Misconfigured)
}

// create returns the record of key, a new one if there is none. s.mu is held.
func (s *faultyStore) create(key string) (*faultyRecord, error) {
	r, err := s.record(key)
	if err != nil {
		return nil, err
	}
	if r == nil {
		r = &faultyRecord{}
		s.records[key] = r
	}
	return r, nil
}

// free reports whether nobody has the record's key.
func (s *faultyStore) free(r *faultyRecord) bool {
	if s.sin == "never expires" {
		return r == nil || r.until.IsZero()
	}
	return r == nil || !time.Now().Before(r.until)
}

// grant gives the key to a request. s.mu is held.
func (s *faultyStore) grant(r *faultyRecord, req backend.Request) {
	now := time.Now()
	r.lose(s.sin)
	r.over = make(chan struct{})
	r.fence = s.nextFence(r, now)
	r.token, r.owner, r.kept = req.Token, req.Owner, false
	r.since, r.until = now, now.Add(s.rounded(req.TTL))
	r.metadata = s.copied(req.Metadata)
	if s.sin == "loses the metadata" {
		r.metadata = nil
	}
	r.seen++
	s.notify(req.Key)
}

func (s *faultyStore) nextFence(r *faultyRecord, now time.Time) uint64 {
	clock := uint64(now.UnixMicro())
	switch {
	case s.sin == "takes a coarse clock for the fence":
		return uint64(now.UnixMilli())
	case s.sin == "reuses a fence" && r.fence > 0, s.sin == "reuses the fence of a broken lease" && r.broken:
		return r.fence
	case s.sin == "keeps the fence of an expired lease" && r.token != "" && r.fence > 0:
		return r.fence
	case s.sin == "restarts the fence after a deletion",
		s.sin == "restarts the fence with the store" && s.reborn:
		return r.fence + 1
	}
	return max(r.fence+1, clock)
}

// lose tells the holder that its lease is over.
func (r *faultyRecord) lose(sin string) {
	if r.over != nil && sin != "never tells a loss" {
		close(r.over)
	}
	r.over = nil
}

// rounded is the TTL that the store keeps.
func (s *faultyStore) rounded(ttl time.Duration) time.Duration {
	if s.sin == "rounds a TTL down" {
		return max(ttl.Truncate(mutantTTL), mutantTTL)
	}
	return ttl
}

// end leaves the key taken until the given instant, by nobody, and spends token. s.mu is held.
func (s *faultyStore) end(key string, r *faultyRecord, token string, until time.Time) {
	r.lose(s.sin)
	r.token, r.spent, r.until = "", token, until
	r.kept = time.Now().Before(until)
	if s.sin == "never expires" && !r.kept {
		r.until = time.Time{}
	}
	r.seen++
	s.notify(key)
}

// notify wakes those who wait for key. s.mu is held.
func (s *faultyStore) notify(key string) {
	for c, k := range s.waiters {
		if k != key {
			continue
		}
		delete(s.waiters, c)
		close(c)
		if s.sin == "wakes one waiter of many" {
			return
		}
	}
}

func (s *faultyStore) holder(r *faultyRecord) backend.Holder {
	h := backend.Holder{
		Owner:     r.owner,
		Fence:     r.fence,
		Since:     r.since,
		Remaining: time.Until(r.until),
		Kept:      r.kept && s.sin != "hides that a key is kept",
		Seen:      strconv.FormatUint(r.fence, 10) + "/" + strconv.Itoa(r.seen),
		Metadata:  s.copied(r.metadata),
	}
	if s.sin == "shows the time that has passed as remaining" {
		h.Remaining = time.Since(r.since)
	}
	return h
}

// Close ends what the client runs by itself.
func (d *faultyDriver) Close() error {
	close(d.closed)
	return nil
}

var _ io.Closer = (*faultyDriver)(nil)
