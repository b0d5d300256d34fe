package backendtest

import (
	"context"
	"errors"
	"time"

	"github.com/goleader/leader/backend"
)

// A faultyLease is a term in a faultyStore.
type faultyLease struct {
	d                 *faultyDriver
	key, token, owner string
	fence             uint64
	ttl               time.Duration
	ends              time.Time // unless it is renewed
	over              chan struct{}
	repeated          bool // the token had the key before
}

func (l *faultyLease) Lost() <-chan struct{} { return l.over }

func (l *faultyLease) Fence() uint64 {
	if l.d.sin == "raises the fence on renewal" {
		l.d.mu.Lock()
		defer l.d.mu.Unlock()
		if r := l.d.records[l.key]; r != nil && r.token == l.token {
			return r.fence
		}
	}
	return l.fence
}

func (l *faultyLease) Renew(ctx context.Context, ttl time.Duration) error {
	d := l.d
	if err := d.inLimits(ttl); err != nil && d.sin != "accepts any TTL in a renewal" {
		return err
	}
	if err := d.enter(ctx); err != nil {
		if d.sin == "takes a canceled renewal for a loss" {
			return backend.ErrLost
		}
		return err
	}
	if d.sin == "takes a renewal that was cut short for a loss" && cutShort(ctx) {
		return backend.ErrLost
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r, err := d.record(l.key)
	if err != nil {
		return err
	}
	if l.held(r) {
		d.extend(r, ttl)
		return nil
	}
	return l.renewLost(r)
}

// cutShort waits for a store that takes its time, and reports whether ctx did not.
func cutShort(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	case <-time.After(2 * time.Millisecond):
		return false
	}
}

func (l *faultyLease) held(r *faultyRecord) bool {
	if l.d.sin == "renews without looking at the token" {
		return !l.d.free(r)
	}
	return !l.d.free(r) && r.token == l.token
}

// renewLost answers the renewal of a lease that is over. d.mu is held.
func (l *faultyLease) renewLost(r *faultyRecord) error {
	d := l.d
	switch {
	case d.sin == "frees what is kept in a late renewal" && r != nil && r.kept && time.Now().After(l.ends):
		d.end(l.key, r, l.token, time.Now())
	case d.sin == "renews an expired lease" && r != nil && r.token == l.token,
		d.sin == "revives a released lease" && r != nil && r.spent == l.token && !r.kept,
		d.sin == "revives a kept lease" && r != nil && r.spent == l.token && r.kept:
		r.token, r.kept, r.until = l.token, false, time.Now().Add(l.ttl)
		return nil
	case d.sin == "creates a record on renewal" && r == nil:
		d.records[l.key] = &faultyRecord{token: l.token, owner: l.owner, fence: l.fence, until: time.Now().Add(l.ttl)}
		return nil
	case d.sin == "trusts itself after a partition" && d.wasFrozen,
		d.sin == "trusts a lease that a restart forgot" && d.reborn:
		return nil
	}
	return backend.ErrLost
}

// extend moves the end of a lease that is held. d.mu is held.
func (d *faultyDriver) extend(r *faultyRecord, ttl time.Duration) {
	end := time.Now().Add(d.rounded(ttl))
	switch d.sin {
	case "renews without effect":
		return
	case "renewal shortens":
		r.until = end
	case "a renewed lease never ends":
		end = end.Add(time.Hour)
	case "moves Since on renewal":
		r.since = time.Now()
	case "raises the fence on renewal":
		r.fence++
	case "tells a loss that is none":
		r.lose("")
	case "a renewal moves its neighbours":
		for _, other := range d.neighbours(r) {
			other.until = later(other.until, end)
		}
	case "writes back a stale record on renewal":
		stale := *r
		d.mu.Unlock()
		time.Sleep(time.Millisecond)
		d.mu.Lock()
		*r = stale
	}
	if end.After(r.until) {
		r.until = end
	}
}

func (l *faultyLease) Release(ctx context.Context, keep time.Duration) error {
	d := l.d
	if err := d.enter(ctx); err != nil {
		return err
	}
	if d.sin == "takes a release that was cut short for done" && cutShort(ctx) {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r, err := d.record(l.key)
	if err != nil {
		return err
	}
	d.sinOnSlot(l, r)
	switch {
	case r == nil && d.sin == "fails to release what was deleted":
		return errors.New("no such record")
	case r == nil:
		return nil
	case l.mayEnd(r, keep):
		return l.end(r, keep)
	case r.token == l.token: // expired
		if d.sin == "refuses a late release" {
			return backend.ErrLost
		}
		if d.sin != "spends nothing on a late release" {
			r.token, r.spent = "", l.token
		}
	case d.sin == "refuses a repeated release" && r.spent == l.token:
		return backend.ErrLost
	}
	return nil
}

// mayEnd reports whether a release concerns the record as it is.
func (l *faultyLease) mayEnd(r *faultyRecord, keep time.Duration) bool {
	if l.d.free(r) {
		return false
	}
	switch l.d.sin {
	case "releases without looking at the token":
		return true
	case "releases a repeated lease by its name":
		if l.repeated {
			return true
		}
	case "compares the owner on release":
		return r.owner == l.owner
	case "keeps a successor's key":
		if keep > 0 {
			return true
		}
	}
	return r.token == l.token || r.kept && r.spent == l.token
}

// end releases the record. d.mu is held.
func (l *faultyLease) end(r *faultyRecord, keep time.Duration) error {
	d := l.d
	until := time.Now().Add(keep)
	key := l.key
	switch {
	case d.sin == "release does nothing":
		return nil
	case d.sin == "release wakes nobody":
		key = ""
	case d.sin == "ignores keep":
		until = time.Now()
	case d.sin == "keeps for ever" && keep > 0:
		until = until.Add(time.Hour)
	case d.sin == "frees what is kept in a late release" && r.kept && time.Now().After(l.ends):
		until = time.Now()
	case d.sin == "adds keep up" && r.kept:
		until = r.until.Add(keep)
	case d.sin == "ends keep by a timer of its own" && keep > 0:
		until = until.Add(time.Hour)
		go l.endLater(r, keep)
	}
	d.end(key, r, l.token, until)
	return nil
}

// endLater frees a kept key if the client lives that long.
func (l *faultyLease) endLater(r *faultyRecord, keep time.Duration) {
	select {
	case <-time.After(keep):
	case <-l.d.closed:
		return
	case <-l.d.stopped:
		return
	}
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if r.kept && r.spent == l.token {
		l.d.end(l.key, r, l.token, time.Now())
	}
}
