package leader_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

var (
	seeds     = flag.Int("seeds", defaultSeeds, "how many seeds the property test tries")
	firstSeed = flag.Uint64("seed", 0, "the first seed of the property test; 0 is a random one")
)

// TestProperty_NoTwoElectorsEverTrustOneName lets several electors contend for an hour over a store whose network loses,
// delays, repeats and freezes requests, and whose clock runs ahead by all but a nanosecond of the safety margin.
//
// Two intervals of trust overlap exactly if the one that begins later begins within the other. So it is enough to look,
// at the beginning of each term, whether anybody else still trusts the name.
func TestProperty_NoTwoElectorsEverTrustOneName(t *testing.T) {
	first := *firstSeed
	if first == 0 {
		first = rand.Uint64N(1 << 32)
	}
	var terms, lost, faults, unknown atomic.Int64
	for i := range uint64(*seeds) {
		seed := first + i
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			w.run()
			terms.Add(w.terms.Load())
			lost.Add(w.lost.Load())
			faults.Add(w.faults.Load())
			unknown.Add(w.failed.Load())
		})
		if t.Failed() {
			t.Fatalf("failed with -seeds 1 -seed %d", seed)
		}
	}
	t.Logf("first seed %d: %d terms of which %d were lost, %d faults, %d failed calls",
		first, terms.Load(), lost.Load(), faults.Load(), unknown.Load())
	if *seeds >= 20 && (terms.Load() < int64(*seeds)*50 || lost.Load() < int64(*seeds)) {
		t.Error("too little happened for this test to mean anything")
	}
}

const worldTime = time.Hour

// worldLeases are the lease times of the electors.
var worldLeases = []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute}

// world is a store, its clients and what is known of who leads.
type world struct {
	t      *testing.T
	store  *local.Backend
	calm   atomic.Bool // no more faults
	terms  atomic.Int64
	lost   atomic.Int64
	faults atomic.Int64
	failed atomic.Int64

	mu      sync.Mutex
	rng     *rand.Rand
	leaders map[string]map[*leader.Lease]bool
	fences  map[string]uint64
	told    map[uint64]leader.LeaseInfo // by fence, of which hooks know the acquisition, and no end yet
}

func newWorld(t *testing.T, seed uint64) *world {
	return &world{
		t: t, store: local.New(), rng: rand.New(rand.NewPCG(seed, 0)),
		leaders: make(map[string]map[*leader.Lease]bool), fences: make(map[string]uint64),
		told: make(map[uint64]leader.LeaseInfo),
	}
}

func (w *world) run() {
	end := time.Now().Add(worldTime)
	var wg sync.WaitGroup
	for i := range 3 {
		e := w.elector(i)
		for j := range 3 {
			wg.Go(func() { w.contend(e, fmt.Sprint("name ", j%2), end) })
		}
	}
	time.Sleep(worldTime)
	w.calm.Store(true)
	wg.Wait()
	time.Sleep(20 * time.Minute) // until the last late request has arrived
	e := electorOn(w.t, w.store)
	for j := range 2 {
		if r, err := e.RunIfLeader(w.t.Context(), fmt.Sprint("name ", j), nothing); err != nil || !r.OK() {
			w.t.Errorf("name %d: got %v, %v after all faults, want elected", j, r, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.told {
		w.t.Errorf("no hook told the end of %+v", l)
	}
}

// hooks keep told.
func (w *world) hooks() leader.Hooks {
	ended := func(l leader.LeaseInfo) {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.told, l.Fence)
	}
	return leader.Hooks{
		Acquired: func(_ context.Context, l leader.LeaseInfo) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told[l.Fence] = l
		},
		Lost:          func(_ context.Context, l leader.LeaseInfo, _ error) { ended(l) },
		Released:      func(_ context.Context, l leader.LeaseInfo) { ended(l) },
		ReleaseFailed: func(_ context.Context, l leader.LeaseInfo, _ error) { ended(l) },
	}
}

// elector makes one with a client of its own, whose network fails in its own way.
func (w *world) elector(i int) *leader.Single {
	d := driverOf(w.store)
	d.ahead = func(ttl time.Duration) time.Duration { return marginFor(ttl) - 1 }
	d.limits.Blocking = w.chance(0.5)
	d.limits.LookFirst = w.chance(0.3)
	d.limits.Punctual = d.limits.Blocking && w.chance(0.4)
	net := &network{w: w, limits: d.limits}
	d.on(net.answer)
	go net.freeze()
	var driver backend.Driver = d
	if w.chance(0.7) {
		driver = hinting{driver: d}
	}
	return electorOn(w.t, driver, leader.WithNodeID(fmt.Sprint("node ", i)), leader.WithLeaseTime(pick(w, worldLeases)),
		leader.WithHooks(w.hooks()))
}

// marginFor is the default safety margin.
func marginFor(l time.Duration) time.Duration {
	return min(l/2, max(min(max(l/10, 50*time.Millisecond), 2*time.Second), l/1000))
}

func (w *world) chance(p float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.Float64() < p
}

// upTo is a random duration.
func (w *world) upTo(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.rng.Int64N(int64(d) + 1))
}

func pick[T any](w *world, from []T) T { return from[w.upTo(time.Duration(len(from)-1))] }

// contend tries again and again to lead.
func (w *world) contend(e *leader.Single, name string, end time.Time) {
	for time.Now().Before(end) {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute+w.upTo(10*time.Minute))
		var opts []leader.RunOption
		if w.chance(0.3) {
			opts = append(opts, leader.WithoutAutoExtend())
		}
		if w.chance(0.2) {
			opts = append(opts, leader.WithMaxHold(1+w.upTo(2*time.Minute)))
		}
		if w.chance(0.2) {
			opts = append(opts, leader.WithMinLease(w.upTo(10*time.Second)))
		}
		switch wait := leader.WithWaitTime(w.upTo(5 * time.Minute)); {
		case w.chance(0.2):
			_ = e.Campaign(ctx, name, func(ctx context.Context) error { return w.lead(ctx, name) }, opts...)
		case w.chance(0.3):
			w.acquire(ctx, e, name, append(opts, wait))
		case w.chance(0.35):
			w.runOnce(ctx, e, name, opts)
		default:
			w.runOnce(ctx, e, name, append(opts, wait))
		}
		cancel()
		time.Sleep(w.upTo(20 * time.Second))
	}
}

func (w *world) runOnce(ctx context.Context, e *leader.Single, name string, opts []leader.RunOption) {
	ran := false
	r, err := e.RunIfLeader(ctx, name, func(ctx context.Context) error {
		ran = true
		return w.lead(ctx, name)
	}, opts...)
	if ran != (err == nil && r.Outcome != leader.Skipped) {
		w.t.Errorf("ran: %v, but the call returned %v, %v", ran, r, err)
	}
	if err != nil {
		w.failed.Add(1)
	}
	if r.Lost != nil && !errors.Is(r.Lost, leader.ErrReleased) {
		w.lost.Add(1)
	}
}

func (w *world) acquire(ctx context.Context, e *leader.Single, name string, opts []leader.RunOption) {
	l, err := e.Acquire(ctx, name, opts...)
	if err != nil {
		w.failed.Add(1)
		return
	}
	_ = w.lead(l.Context(), name)
	_ = l.Release(ctx)
}

// lead is a term: it works for a while, looks at its context more or less often, and ignores it at times.
func (w *world) lead(ctx context.Context, name string) error {
	l, ok := leader.LeaseFrom(ctx)
	if !ok {
		return context.Cause(ctx)
	}
	w.begin(l, name)
	defer w.end(l, name)
	for until := time.Now().Add(w.upTo(3 * time.Minute)); time.Now().Before(until); {
		switch {
		case w.chance(0.1):
			_ = l.Extend(ctx, 1+w.upTo(2*time.Minute))
		case w.chance(0.02):
			_ = l.Release(ctx)
		}
		select {
		case <-time.After(w.upTo(40 * time.Second)):
		case <-ctx.Done():
			if l.Err() == nil && ctx.Err() == nil {
				w.t.Error("Done before the end")
			}
			if w.chance(0.5) {
				return context.Cause(ctx)
			}
			time.Sleep(w.upTo(time.Minute))
		}
	}
	return nil
}

func (w *world) begin(l *leader.Lease, name string) {
	w.terms.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	for other := range w.leaders[name] {
		if l.Err() == nil && other.Err() == nil {
			w.t.Errorf("%s: %+v and %+v trust it at one time", name, other.Info(), l.Info())
		}
	}
	if w.leaders[name] == nil {
		w.leaders[name] = make(map[*leader.Lease]bool)
	}
	w.leaders[name][l] = true
	if fence := l.Info().Fence; fence <= w.fences[name] {
		w.t.Errorf("%s: fence %d after %d", name, fence, w.fences[name])
	}
	w.fences[name] = l.Info().Fence
}

func (w *world) end(l *leader.Lease, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.leaders[name], l)
}

// network is what lies between one client and the store.
type network struct {
	w      *world
	limits backend.Limits

	mu     sync.Mutex
	thawed chan struct{} // closed when messages pass again; nil while they pass
}

// freeze stops the network now and then, for up to three minutes.
func (n *network) freeze() {
	for !n.w.calm.Load() {
		time.Sleep(n.w.upTo(10 * time.Minute))
		thawed := make(chan struct{})
		n.set(thawed)
		time.Sleep(n.w.upTo(3 * time.Minute))
		n.set(nil)
		close(thawed)
	}
}

func (n *network) set(thawed chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.thawed = thawed
}

func (n *network) frozen() chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.thawed
}

// answer decides the fate of one request.
func (n *network) answer(request) answer {
	if n.w.calm.Load() {
		return nil
	}
	// world's mu comes after the driver's, and is held by nobody who calls a driver.
	var there, back time.Duration
	if n.w.chance(0.3) {
		there, back = n.w.upTo(30*time.Millisecond), n.w.upTo(30*time.Millisecond)
	}
	if n.w.chance(0.15) {
		n.w.faults.Add(1)
		switch {
		case n.w.chance(0.25):
			return fails(errDown)
		case n.w.chance(0.3):
			return losesAnswer(errStrange)
		case n.w.chance(0.35):
			there = n.w.upTo(2 * time.Minute)
		case n.w.chance(0.5):
			back = n.w.upTo(2 * time.Minute)
		default:
			there, back = n.w.upTo(30*time.Second), n.w.upTo(30*time.Second)
		}
	}
	if there == 0 && back == 0 && n.frozen() == nil {
		return nil
	}
	return func(ctx context.Context, apply func() error) error {
		carry := func() error {
			n.pass(there)
			err := apply()
			n.pass(back)
			return err
		}
		if n.limits.Blocking && !n.limits.Punctual {
			return carry()
		}
		answers := make(chan error, 1)
		go func() { answers <- carry() }()
		given, stop := n.patience(ctx)
		defer stop()
		select {
		case err := <-answers:
			return err
		case <-given.Done():
			return given.Err()
		}
	}
}

// patience is the context that a driver of this kind keeps.
func (n *network) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !n.limits.Punctual || !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(context.WithoutCancel(ctx), deadline)
}

// pass is the way of one message, which stands still while the network is frozen.
func (n *network) pass(d time.Duration) {
	time.Sleep(d)
	for thawed := n.frozen(); thawed != nil; thawed = n.frozen() {
		<-thawed
	}
}
