package leader_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

// The kinds of requests of drivers with more abilities; a request for any slot is one of kind acquires.
const (
	puts    verb = "put"
	clears  verb = "clear" // a put of nothing
	lists   verb = "list"
	deletes verb = "delete"
	awaits  verb = "await"
)

// received is a value that a request brings, which may be given up while it is being made.
type received[T any] struct {
	mu sync.Mutex
	v  T
}

func (r *received[T]) set(v T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.v = v
}

func (r *received[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.v
}

// recording is a scripted driver that keeps records.
type recording struct{ *driver }

var _ backend.Records = recording{}

func (d recording) PutRecord(ctx context.Context, r backend.Record) (string, error) {
	var version received[string]
	v := puts
	if len(r.Value) == 0 {
		v = clears
	}
	err := d.do(ctx, request{verb: v, key: r.Key, d: r.TTL}, func(ctx context.Context) error {
		v, err := d.store.PutRecord(ctx, r)
		version.set(v)
		return err
	})
	if err != nil {
		return "", err
	}
	return version.get(), nil
}

func (d recording) GetRecords(ctx context.Context, prefix string) ([]backend.Record, time.Time, error) {
	type listing struct {
		list []backend.Record
		now  time.Time
	}
	var got received[listing]
	err := d.do(ctx, request{verb: lists, key: prefix}, func(ctx context.Context) error {
		list, now, err := d.store.GetRecords(ctx, prefix)
		got.set(listing{list, now})
		return err
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	return got.get().list, got.get().now, nil
}

func (d recording) DeleteRecord(ctx context.Context, r backend.Record) error {
	return d.do(ctx, request{verb: deletes, key: r.Key}, func(ctx context.Context) error {
		return d.store.DeleteRecord(ctx, r)
	})
}

// able is a scripted driver that keeps records and notifies waiters.
type able struct{ recording }

var _ backend.Waiter = able{}

func (d able) AwaitRelease(ctx context.Context, key, seen string) error {
	return d.do(ctx, request{verb: awaits, key: key}, func(ctx context.Context) error {
		return d.store.AwaitRelease(ctx, key, seen)
	})
}

// slotted is a scripted driver that takes any free slot in one request.
type slotted struct{ *driver }

var _ backend.SlotAcquirer = slotted{}

func (d slotted) TryAcquireSlot(ctx context.Context, req backend.Request, n int) (backend.Lease, int, error) {
	return d.tryAcquireSlot(ctx, req, n)
}

func (d *driver) tryAcquireSlot(ctx context.Context, req backend.Request, n int) (backend.Lease, int, error) {
	type grant struct {
		l    backend.Lease
		slot int
	}
	var got received[grant]
	r := request{verb: acquires, key: req.Key, token: req.Token, d: req.TTL}
	err := d.do(ctx, r, func(ctx context.Context) error {
		l, slot, err := d.store.TryAcquireSlot(ctx, req, n)
		got.set(grant{l, slot})
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	g := got.get()
	req.Key = backend.SlotKey(req.Key, g.slot)
	return &scriptedLease{g.l, d, req}, g.slot, nil
}

// slottedHinting is slotted with a Waiter.
type slottedHinting struct{ hinting }

func (d slottedHinting) TryAcquireSlot(ctx context.Context, req backend.Request, n int) (backend.Lease, int, error) {
	return d.tryAcquireSlot(ctx, req, n)
}

// openAs makes a driver of one kind of a scripted one.
type openAs func(d *driver) backend.Driver

// bothWays runs a test in virtual time with drivers that try the slots of a group one by one, and with such that try
// them together.
func bothWays(t *testing.T, f func(t *testing.T, as openAs)) {
	t.Helper()
	ways := map[string]openAs{
		"one by one": func(d *driver) backend.Driver { return d },
		"together":   func(d *driver) backend.Driver { return slotted{d} },
	}
	for way, as := range ways {
		t.Run(way, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, as) }) })
	}
}

// recordsOf asks a store for a set of records.
func recordsOf(t testing.TB, store *local.Backend, set string) []backend.Record {
	t.Helper()
	list, _, err := store.GetRecords(context.WithoutCancel(t.Context()), set)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// partition cuts a driver off its store: requests end with their context, nothing arrives.
func (d *driver) partition() { d.on(func(request) answer { return hangs }) }

// heal ends what a script did.
func (d *driver) heal() { d.on(nil) }

// oracle counts who believes to lead, independently of the code under test.
type oracle struct {
	mu      sync.Mutex
	holders map[string]bool
	most    int
}

// begin counts one more until end is called with the same id.
func (o *oracle) begin(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.holders == nil {
		o.holders = make(map[string]bool)
	}
	o.holders[id] = true
	o.most = max(o.most, len(o.holders))
}

func (o *oracle) end(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.holders, id)
}

// peak is the largest number since the last call.
func (o *oracle) peak() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	most := o.most
	o.most = len(o.holders)
	return most
}

// now is the present number.
func (o *oracle) now() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.holders)
}
