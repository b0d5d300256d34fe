package backendtest

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

const duelLease = 600 * time.Millisecond

// freezable is a client that a test can freeze. Its store keeps leases for a part of the time that it promises.
type freezable struct {
	backend.Driver

	part   time.Duration // of the TTL, in percent
	mu     sync.Mutex
	thawed chan struct{} // closed unless frozen
}

func newFreezable(d backend.Driver, part time.Duration) *freezable {
	f := &freezable{Driver: d, part: part, thawed: make(chan struct{})}
	close(f.thawed)
	return f
}

func (f *freezable) freeze(testing.TB) (heal func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.thawed = make(chan struct{})
	return func() { close(f.thawed) }
}

func (f *freezable) pass(ctx context.Context) error {
	f.mu.Lock()
	thawed := f.thawed
	f.mu.Unlock()
	select {
	case <-thawed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *freezable) Limits() backend.Limits { return backend.Limits{} }

func (f *freezable) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if err := f.pass(ctx); err != nil {
		return nil, err
	}
	req.TTL = req.TTL * f.part / 100
	l, err := f.Driver.TryAcquire(ctx, req)
	if err != nil {
		return nil, err
	}
	return &freezableLease{l, f}, nil
}

type freezableLease struct {
	backend.Lease

	f *freezable
}

func (l *freezableLease) Renew(ctx context.Context, ttl time.Duration) error {
	if err := l.f.pass(ctx); err != nil {
		return err
	}
	return l.Lease.Renew(ctx, ttl*l.f.part/100)
}

func (l *freezableLease) Release(ctx context.Context, keep time.Duration) error {
	if err := l.f.pass(ctx); err != nil {
		return err
	}
	return l.Lease.Release(ctx, keep)
}

// failures is a test whose failures are wanted. The clean-ups are those of the real one.
type failures struct {
	testing.TB

	mu   sync.Mutex
	seen []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, fmt.Sprintf(format, args...))
}

func TestOverlap_LeavesAGapOverACorrectStore(t *testing.T) {
	store := local.New()
	f := newFreezable(store, 100)
	d := newDuel(t, f, store, duelLease, phases(duelLease))
	o := d.fight(t, Fault{Effect: LosesAll}, f.freeze)
	o.judge(t)
	if n := len(o.handovers()); n != seeds {
		t.Errorf("%d names changed hands, want %d", n, seeds)
	}
}

func TestOverlap_SparesLeasesThatAreRenewedInTime(t *testing.T) {
	store := local.New()
	f := newFreezable(store, 100)
	d := newDuel(t, f, store, 3*duelLease, phases(3*duelLease))
	o := d.fight(t, Fault{Effect: LosesNone, Lasts: duelLease / 2}, f.freeze)
	o.judge(t)
	if n := len(o.handovers()); n != 0 {
		t.Errorf("%d names changed hands, want none", n)
	}
}

func TestOverlap_FindsAStoreThatGivesLeasesAwayEarly(t *testing.T) {
	store := local.New()
	f := newFreezable(store, 60)
	d := newDuel(t, f, store, 2*duelLease, phases(2*duelLease))
	o := d.fight(t, Fault{Effect: LosesAll}, f.freeze)
	var found int
	for _, fault := range o.faults() {
		if strings.Contains(fault, "trusted for") {
			found++
		}
	}
	if found < seeds/2 { // on a slow machine some leases are found lost before the fault
		t.Errorf("%d overlaps found, want one in each of %d names: %q", found, seeds, o.faults())
	}
}

func TestOverlap_FindsALossThatShouldNotBe(t *testing.T) {
	store := local.New()
	f := newFreezable(store, 100)
	d := newDuel(t, f, store, duelLease, phases(duelLease))
	r := &failures{TB: t}
	d.fight(r, Fault{Effect: LosesNone, Lasts: 2 * duelLease}, f.freeze)
	if len(r.seen) < seeds {
		t.Errorf("%d failures, want one in each of %d names: %q", len(r.seen), seeds, r.seen)
	}
}

func TestOverlap_FindsALeaseThatShouldBeLost(t *testing.T) {
	store := local.New()
	d := newDuel(t, newFreezable(store, 100), store, duelLease, phases(duelLease))
	r := &failures{TB: t}
	for i := range seeds {
		d.checkKept(r, i, LosesAll)
	}
	if len(r.seen) < seeds {
		t.Errorf("%d failures, want one in each of %d names: %q", len(r.seen), seeds, r.seen)
	}
}

func TestOverlap_HandsOffByNotification(t *testing.T) {
	store := local.New()
	o := newDuel(t, store, store, handOffLease, 0).passOn(t)
	o.judge(t)
	if n := len(o.handovers()); n != seeds {
		t.Errorf("%d names changed hands, want %d", n, seeds)
	}
}

func TestOutcome_Faults_ComparesHoldingsOfOneName(t *testing.T) {
	const lost = "lost"
	a := holding{"a", 1, 10, 20, lost}
	for name, test := range map[string]struct {
		then  []holding
		want  int
		first time.Duration // the overlap of the first two
	}{
		"a gap":                  {[]holding{{"a", 2, 21, 30, lost}}, 0, -1},
		"touching":               {[]holding{{"a", 2, 20, 30, lost}}, 0, 0},
		"an overlap":             {[]holding{{"a", 2, 15, 30, lost}}, 1, 5},
		"inside":                 {[]holding{{"a", 2, 12, 15, lost}}, 1, 3},
		"a smaller fence":        {[]holding{{"a", 0, 25, 30, lost}}, 1, -5},
		"the same fence":         {[]holding{{"a", 1, 25, 30, lost}}, 1, -5},
		"another name":           {[]holding{{"b", 2, 15, 30, lost}}, 0, 0},
		"never trusted":          {[]holding{{"a", 2, 0, 0, lost}}, 0, 0},
		"a third one overlaps":   {[]holding{{"a", 3, 35, 50, lost}, {"a", 2, 30, 40, lost}}, 1, -10},
		"a third one is greater": {[]holding{{"a", 3, 35, 50, lost}, {"a", 2, 30, 34, lost}}, 0, -10},
	} {
		o := outcome{holder: []holding{a}, contender: test.then, from: at(0)}
		if faults := o.faults(); len(faults) != test.want {
			t.Errorf("%s: %d faults, want %d: %q", name, len(faults), test.want, faults)
		}
		if all := o.handovers(); len(all) > 0 && all[0].overlap() != test.first {
			t.Errorf("%s: overlap %d, want %d", name, all[0].overlap(), test.first)
		}
	}
}

func TestFencedCounter_RefusesWritesOfAnOlderFence(t *testing.T) {
	c := newFencedCounter()
	for i, write := range []struct {
		name  string
		fence uint64
		want  bool
	}{{"a", 5, true}, {"a", 5, true}, {"a", 7, true}, {"a", 5, false}, {"b", 5, true}, {"a", 6, false}, {"a", 7, true}} {
		if got := c.add(write.name, write.fence); got != write.want {
			t.Errorf("write %d: %v, want %v", i, got, write.want)
		}
	}
	if got, want := c.count("a"), (fencedCount{fence: 7, accepted: 2, refused: 2}); got != want {
		t.Errorf("count: %+v, want %+v", got, want)
	}
}

func TestOnly_SelectsOneTest(t *testing.T) {
	for test, want := range map[string]string{
		"TestOverlap":       "^TestOverlap$",
		"TestOverlap/a+b/c": "^TestOverlap$/^" + regexp.QuoteMeta("a+b") + "$/^c$",
	} {
		if got := only(test); got != want {
			t.Errorf("only(%q) = %q, want %q", test, got, want)
		}
	}
}
