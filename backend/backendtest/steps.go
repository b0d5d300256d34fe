package backendtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"strconv"
	"time"

	"github.com/goleader/leader/backend"
)

// attempts is how often a case that the store answered too slowly for is tried.
const attempts = 10

// A grant is a lease that the case won, with the instants around the attempt.
type grant struct {
	backend.Lease

	driver         backend.Driver
	req            backend.Request
	sent, answered time.Time
}

// sure is the instant up to which the store cannot have ended the lease by itself, whatever the delays.
func (g grant) sure() time.Time { return g.sent.Add(g.req.TTL) }

// open returns n clients of a new store.
func (t *caseT) open(n int) []backend.Driver {
	t.Helper()
	drivers := t.cfg.Open(t, n)
	if len(drivers) != n {
		t.Fatalf("Config.Open returned %d drivers, want %d", len(drivers), n)
	}
	t.limits = limitsOf(drivers[0])
	return drivers
}

// pair returns two clients of a new store.
func (t *caseT) pair() (a, b backend.Driver) {
	t.Helper()
	drivers := t.open(2)
	return drivers[0], drivers[1]
}

// ability returns d's ability T, and ends the case if it has none.
func ability[T any](t *caseT, d backend.Driver) T {
	t.Helper()
	v, ok := backend.As[T](d)
	if !ok {
		t.lack(fmt.Sprintf("%s does not offer the ability %s", d.Name(), reflect.TypeFor[T]().Name()))
	}
	return v
}

// ttl is the configured TTL, the shortest that the store honours well.
func (t *caseT) ttl() time.Duration { return t.cfg.TTL }

// long is a TTL that no case outlives.
func (t *caseT) long() time.Duration {
	const long = 10 * time.Minute
	if t.limits.MaxTTL > 0 {
		return min(long, t.limits.MaxTTL)
	}
	return long
}

// request is an acquisition of key by a new node with a new token.
func (t *caseT) request(key string, ttl time.Duration) backend.Request {
	return backend.Request{
		Key:      key,
		Token:    rand.Text(),
		Owner:    "node-" + strconv.FormatInt(t.nodes.Add(1), 10),
		TTL:      ttl,
		Metadata: map[string]string{"zone": "a"},
	}
}

// win acquires and must succeed.
func (t *caseT) win(d backend.Driver, req backend.Request) grant {
	t.Helper()
	g, err := t.try(d, req)
	if err != nil {
		t.Fatalf("TryAcquire(%q) by %s: %v, want success", req.Key, req.Owner, err)
	}
	return g
}

// try makes one attempt; a success must come with a lease that has a fence.
func (t *caseT) try(d backend.Driver, req backend.Request) (grant, error) {
	t.Helper()
	return t.tryFor(t.Context(), d, req)
}

// tryFor is try with a context.
func (t *caseT) tryFor(ctx context.Context, d backend.Driver, req backend.Request) (grant, error) {
	t.Helper()
	sent := time.Now()
	lease, err := d.TryAcquire(ctx, req)
	g := grant{Lease: lease, driver: d, req: req, sent: sent, answered: time.Now()}
	switch {
	case err != nil && lease != nil:
		t.Fatalf("TryAcquire(%q) by %s: a lease together with the error %v", req.Key, req.Owner, err)
	case err == nil && lease == nil:
		t.Fatalf("TryAcquire(%q) by %s: neither lease nor error", req.Key, req.Owner)
	case err == nil && lease.Fence() == 0:
		t.Fatalf("TryAcquire(%q) by %s: the fence is 0", req.Key, req.Owner)
	}
	return g, err
}

// refused makes an attempt that must find the key held, and returns what the answer says of the holder.
func (t *caseT) refused(d backend.Driver, req backend.Request) backend.Holder {
	t.Helper()
	_, err := t.try(d, req)
	if !errors.Is(err, backend.ErrHeld) {
		t.Fatalf("TryAcquire(%q) by %s: %v, want ErrHeld", req.Key, req.Owner, orSuccess(err))
	}
	if held, ok := errors.AsType[*backend.HeldError](err); ok {
		return held.Holder
	}
	return backend.Holder{}
}

// taken attempts until the key can be had, which must not be before the instant given, and soon after it: within the
// store's own delay.
func (t *caseT) taken(d backend.Driver, req backend.Request, notBefore time.Time) grant {
	t.Helper()
	return t.takenThough(d, req, notBefore, func(err error) bool { return errors.Is(err, backend.ErrHeld) })
}

// takenThough is taken with attempts that may fail.
func (t *caseT) takenThough(
	d backend.Driver, req backend.Request, notBefore time.Time, mayFail func(err error) bool,
) grant {
	t.Helper()
	var g grant
	within := max(0, time.Until(notBefore)) + t.grace()
	t.eventually("TryAcquire("+strconv.Quote(req.Key)+") finds it free", within, func() bool {
		var err error
		g, err = t.try(d, req)
		if err != nil && !mayFail(err) {
			t.Fatalf("TryAcquire(%q) by %s: %v, want success or ErrHeld", req.Key, req.Owner, err)
		}
		return err == nil
	})
	if early := notBefore.Sub(g.answered); early > t.cfg.Skew {
		t.Fatalf("TryAcquire(%q) by %s succeeded %v before the earlier lease could end", req.Key, req.Owner, early)
	}
	return g
}

// inspect reports the holder and must succeed.
func (t *caseT) inspect(d backend.Driver, key string) backend.Holder {
	t.Helper()
	h, err := d.Inspect(t.Context(), key)
	if err != nil {
		t.Fatalf("Inspect(%q): %v", key, err)
	}
	return h
}

// free waits until nobody has the key, for no longer than the store's own delay.
func (t *caseT) free(d backend.Driver, key string) {
	t.Helper()
	h := t.inspect(d, key)
	for end := time.Now().Add(t.limits.Late); !h.Free() && time.Now().Before(end); h = t.inspect(d, key) {
		t.pause(t.tick())
	}
	if !h.Free() {
		t.Fatalf("Inspect(%q) = %+v, want a free key", key, h)
	}
}

// freeAgain waits for the end of a lease that nobody ends.
func (t *caseT) freeAgain(d backend.Driver, g grant) {
	t.Helper()
	t.eventually("Inspect shows an expired lease as free", time.Until(g.answered.Add(g.req.TTL))+t.grace(), func() bool {
		return t.inspect(d, g.req.Key).Free()
	})
}

// release ends the lease and must succeed.
func (t *caseT) release(g grant, keep time.Duration) {
	t.Helper()
	if err := g.Release(t.Context(), keep); err != nil {
		t.Fatalf("Release(%v) of %q by %s: %v, want nil", keep, g.req.Key, g.req.Owner, err)
	}
}

// renewed renews and must succeed.
func (t *caseT) renewed(g grant, ttl time.Duration) {
	t.Helper()
	if err := g.Renew(t.Context(), ttl); err != nil {
		t.Fatalf("Renew(%v) of %q by %s: %v, want nil", ttl, g.req.Key, g.req.Owner, err)
	}
}

// lost renews and must be told that the lease is over.
func (t *caseT) lost(g grant) {
	t.Helper()
	if err := g.Renew(t.Context(), g.req.TTL); !errors.Is(err, backend.ErrLost) {
		t.Fatalf("Renew of %q by %s: %v, want ErrLost", g.req.Key, g.req.Owner, orSuccess(err))
	}
}

// spent repeats an attempt whose token must be refused for good.
func (t *caseT) spent(d backend.Driver, req backend.Request) {
	t.Helper()
	if _, err := t.try(d, req); !errors.Is(err, backend.ErrLost) {
		t.Fatalf("TryAcquire(%q) by %s with a spent token: %v, want ErrLost", req.Key, req.Owner, orSuccess(err))
	}
}

// unharmed checks that g, which nobody but its holder may end, is as it was: in before, by its holder, and for others.
func (t *caseT) unharmed(d backend.Driver, g grant, before backend.Holder) {
	t.Helper()
	if now := t.inspect(d, g.req.Key); !sameHolder(now, before) {
		t.Fatalf("Inspect(%q) = %+v, want the lease as it was: %+v", g.req.Key, now, before)
	}
	t.refused(d, t.request(g.req.Key, t.ttl()))
	t.renewed(g, g.req.TTL)
}

// sameHolder compares all but the time that remains.
func sameHolder(a, b backend.Holder) bool {
	return a.Owner == b.Owner && a.Fence == b.Fence && a.Since.Equal(b.Since) && a.Kept == b.Kept && a.Seen == b.Seen &&
		maps.Equal(a.Metadata, b.Metadata)
}

// grace is how long after its end a lease may look held before the suite calls the store stuck.
func (t *caseT) grace() time.Duration { return t.limits.Late + t.cfg.Skew + t.patience }

// tick is the time between two looks.
func (t *caseT) tick() time.Duration {
	return min(max(t.ttl()/100, time.Millisecond), 50*time.Millisecond)
}

// pause lets time pass, until the case ends at most.
func (t *caseT) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// pauseUntil lets time pass up to an instant.
func (t *caseT) pauseUntil(at time.Time) { t.pause(time.Until(at)) }

// eventually waits until cond holds.
func (t *caseT) eventually(what string, within time.Duration, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !cond(); t.pause(t.tick()) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", within, what)
		}
	}
}

// promptly runs f, which must return before the suite runs out of patience. What f does to the case counts.
func (t *caseT) promptly(what string, f func()) {
	t.Helper()
	returned := make(chan bool, 1)
	go func() {
		whole := false
		defer func() { returned <- whole }()
		f()
		whole = true
	}()
	if !t.await(what, returned) {
		runtime.Goexit()
	}
}

// await receives from c before the suite runs out of patience.
func (t *caseT) await(what string, c <-chan bool) bool {
	t.Helper()
	timer := time.NewTimer(t.patience)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		t.Fatalf("still not so after %v: %s", t.patience, what)
		return false
	}
}

// conclusive repeats a trial until the store answers it in time. A trial returns false if its lease may have ended
// before the answer that mattered; it uses a key of its own.
func (t *caseT) conclusive(trial func(key string) bool) {
	t.Helper()
	for i := range attempts {
		if trial("trial-" + strconv.Itoa(i)) {
			return
		}
	}
	t.Fatalf("no verdict: in %d trials the store never answered within a TTL of %v; give Config a longer one",
		attempts, t.ttl())
}

// canceled is a context that ended before it is used.
func (t *caseT) canceled() context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// orSuccess prints a missing error as what it is.
func orSuccess(err error) any {
	if err == nil {
		return "success"
	}
	return err
}
