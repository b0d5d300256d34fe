package local

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

const (
	minTTL = time.Millisecond
	// remember is how long a free record keeps its spent token.
	remember = 2 * time.Minute
	// sweepAt is the number of records at which free ones are first looked for.
	sweepAt = 1024
)

// Backend is an in-memory store. All methods may be called concurrently; none of them blocks, [Backend.AwaitRelease]
// and [Backend.Watch] excepted. Use [New]: the zero value is not ready.
type Backend struct {
	mu      sync.Mutex
	records map[string]*record
	fence   uint64 // the last one granted, of any key
	sweep   int    // the number of records at which the next sweep is due
	values  values // what [Backend.PutRecord] stores, which has a lock of its own
}

var (
	_ backend.Driver       = (*Backend)(nil)
	_ backend.Limited      = (*Backend)(nil)
	_ backend.Waiter       = (*Backend)(nil)
	_ backend.Watcher      = (*Backend)(nil)
	_ backend.SlotAcquirer = (*Backend)(nil)
	_ backend.Records      = (*Backend)(nil)
	_ backend.Lister       = (*Backend)(nil)
	_ backend.Breaker      = (*Backend)(nil)
)

// record is what is known of a key. It is free once until has passed.
type record struct {
	token    string // "" when nobody holds the key
	spent    string // the last token that was released or abandoned
	owner    string
	fence    uint64
	since    time.Time
	until    time.Time
	metadata map[string]string
	changed  chan struct{} // closed at the next change; nil while nobody waits
}

// New returns an empty store.
func New() *Backend {
	return &Backend{records: make(map[string]*record), sweep: sweepAt}
}

// Name returns "local".
func (b *Backend) Name() string { return "local" }

// Limits says that leases are at least a millisecond long, and that calls do no I/O.
func (b *Backend) Limits() backend.Limits { return backend.Limits{MinTTL: minTTL, InProcess: true} }

// TryAcquire implements [backend.Driver]. ctx is only looked at before the attempt.
func (b *Backend) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkTTL(req.TTL); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.acquire(req, time.Now())
}

// acquire makes one attempt. b.mu is held.
func (b *Backend) acquire(req backend.Request, now time.Time) (backend.Lease, error) {
	r := b.record(req.Key, now)
	switch {
	case r.spent == req.Token:
		return nil, backend.ErrLost
	case !r.free(now) && r.token == req.Token:
		r.extend(now, req.TTL)
	case !r.free(now):
		return nil, &backend.HeldError{Holder: r.holder(now)}
	default:
		b.fence = max(b.fence+1, uint64(now.UnixMicro()))
		r.token, r.owner, r.fence = req.Token, req.Owner, b.fence
		r.since, r.until = now, now.Add(req.TTL)
		r.metadata = maps.Clone(req.Metadata)
		r.notify()
	}
	return &lease{b: b, record: r, token: req.Token, fence: r.fence}, nil
}

func checkTTL(ttl time.Duration) error {
	if ttl >= minTTL {
		return nil
	}
	return backend.WithKind(fmt.Errorf("ttl %v is under the minimum of %v", ttl, minTTL), backend.Misconfigured)
}

// Abandon implements [backend.Driver]. ctx is only looked at before the attempt.
func (b *Backend) Abandon(ctx context.Context, req backend.Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	r := b.record(req.Key, now)
	if r.free(now) || r.token == req.Token {
		r.end(req.Token, now)
	}
	return nil
}

// Inspect implements [backend.Driver]. ctx is only looked at before the attempt.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := ctx.Err(); err != nil {
		return backend.Holder{}, err
	}
	h, _, _ := b.look(key, false)
	return h, nil
}

// record returns the record of key, a new one if there is none. b.mu is held.
func (b *Backend) record(key string, now time.Time) *record {
	r := b.records[key]
	if r != nil {
		return r
	}
	if len(b.records) >= b.sweep {
		maps.DeleteFunc(b.records, func(_ string, r *record) bool {
			if now.Sub(r.until) <= remember {
				return false
			}
			r.notify() // a record of the same key would not know who waits
			return true
		})
		b.sweep = max(sweepAt, 2*len(b.records))
	}
	r = &record{}
	b.records[key] = r
	return r
}

// look returns the holder of key, its state for [Backend.AwaitRelease], and, if asked for, a channel that is closed at
// the next change.
func (b *Backend) look(key string, subscribe bool) (h backend.Holder, until time.Time, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	r := b.records[key]
	if r == nil {
		if !subscribe {
			return backend.Holder{}, time.Time{}, nil
		}
		r = b.record(key, now)
	}
	if subscribe {
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed = r.changed
	}
	if r.free(now) {
		return backend.Holder{}, time.Time{}, changed
	}
	return r.holder(now), r.until, changed
}

func (r *record) free(now time.Time) bool { return !now.Before(r.until) }

func (r *record) holder(now time.Time) backend.Holder {
	return backend.Holder{
		Owner:     r.owner,
		Fence:     r.fence,
		Since:     r.since,
		Remaining: max(0, r.until.Sub(now)),
		Kept:      r.token == "",
		Seen:      r.seen(),
		Metadata:  maps.Clone(r.metadata),
	}
}

// seen names a term and whether it is still held.
func (r *record) seen() string {
	s := strconv.FormatUint(r.fence, 10)
	if r.token == "" {
		return s + " kept"
	}
	return s
}

func (r *record) extend(now time.Time, ttl time.Duration) {
	if end := now.Add(ttl); end.After(r.until) {
		r.until = end
	}
}

// end spends token and leaves the key taken until the given instant.
func (r *record) end(token string, until time.Time) {
	r.token, r.spent, r.until = "", token, until
	r.notify()
}

func (r *record) notify() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}
