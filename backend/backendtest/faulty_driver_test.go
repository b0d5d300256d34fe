package backendtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"

	"github.com/goleader/leader/backend"
)

const faultyMinTTL = time.Millisecond

// A faultyDriver is one client of a faultyStore.
type faultyDriver struct {
	*faultyStore

	frozen    chan struct{} // closed when the connection is back; nil while nothing is frozen
	wasFrozen bool
	closed    chan struct{}
	buffer    string // the key of the last call, for a sin
}

func (d *faultyDriver) Name() string { return "faulty" }

func (d *faultyDriver) Limits() backend.Limits {
	return backend.Limits{MinTTL: faultyMinTTL, Blocking: d.blocking}
}

// enter waits for the connection.
func (d *faultyDriver) enter(ctx context.Context) error {
	if d.sin == "ignores the context" {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	frozen := d.frozen
	if frozen != nil && d.sin == "stays broken after a partition" {
		frozen = make(chan struct{})
	}
	d.mu.Unlock()
	if frozen == nil {
		return nil
	}
	over := ctx.Done()
	if d.sin == "hangs on a frozen connection" || d.blocking {
		over = d.stopped
	}
	select {
	case <-frozen:
		return nil
	case <-over:
		return ctx.Err()
	}
}

func (d *faultyDriver) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if err := d.inLimits(req.TTL); err != nil && d.sin != "accepts any TTL" {
		return nil, err
	}
	req.Key = d.mapped(req.Key)
	if err := d.enter(ctx); err != nil {
		d.late(req, err)
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	lease, err := d.attempt(ctx, req)
	d.sinAfter(ctx, err)
	return lease, err
}

// late applies an attempt that got stuck once the connection is back. d.mu is not held.
func (d *faultyDriver) late(req backend.Request, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sin == "leaves a record of a canceled attempt" || d.sin == "leaks a goroutine per canceled attempt" {
		d.canceled(req)
	}
	frozen := d.frozen
	if frozen == nil || !errors.Is(err, context.DeadlineExceeded) {
		return
	}
	go func() {
		select {
		case <-frozen:
		case <-d.stopped:
			return
		}
		if d.sin == "applies a stuck attempt after all" {
			time.Sleep(mutantTTL / 4)
			req.TTL = time.Hour
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if r, err := d.create(req.Key); err == nil && d.sin == "applies a stuck attempt after all" {
			d.grant(r, req)
		} else if err == nil && d.free(r) && r.spent != req.Token {
			d.grant(r, req)
		}
	}()
}

// canceled commits the sins around a canceled attempt. d.mu is held.
func (d *faultyDriver) canceled(req backend.Request) {
	if d.sin == "leaks a goroutine per canceled attempt" {
		d.leak()
		return
	}
	if r, err := d.create(req.Key); err == nil && d.free(r) {
		d.grant(r, req)
	}
}

// sinAfter commits the sins at the end of an attempt. d.mu is held.
func (d *faultyDriver) sinAfter(ctx context.Context, err error) {
	switch {
	case d.sin == "leaks a goroutine per term" && err == nil,
		d.sin == "leaks a goroutine per losing attempt" && errors.Is(err, backend.ErrHeld),
		d.sin == "leaks a goroutine per canceled attempt" && ctx.Err() != nil:
		d.leak()
	}
}

func (d *faultyDriver) leak() { go func() { <-d.stopped }() }

// attempt is TryAcquire on the record. d.mu is held.
func (d *faultyDriver) attempt(ctx context.Context, req backend.Request) (backend.Lease, error) {
	r, err := d.create(req.Key)
	if err != nil {
		return nil, err
	}
	repeated := false
	switch {
	case r.spent == req.Token && d.sin != "accepts a spent token":
		return nil, d.spentError(req)
	case d.owns(r, req) && !d.free(r) && !r.kept:
		repeated = true
		d.repeat(r, req)
	case !d.free(r) && !d.mayStealNow(r):
		return nil, d.lose(ctx, r, req)
	case d.sin == "locks the whole store" && d.anyHeld():
		return nil, &backend.HeldError{}
	default:
		d.take(r, req)
	}
	l := d.lease(r, req)
	l.repeated = repeated
	if d.sin == "ties the lease to the attempt's context" {
		context.AfterFunc(ctx, func() { _ = l.Release(context.WithoutCancel(ctx), 0) })
	}
	return l, nil
}

func (d *faultyDriver) lease(r *faultyRecord, req backend.Request) *faultyLease {
	return &faultyLease{
		d: d, key: req.Key, token: req.Token, owner: req.Owner, fence: r.fence, ttl: req.TTL,
		ends: time.Now().Add(req.TTL), over: r.over,
	}
}

func (d *faultyDriver) spentError(req backend.Request) error {
	if d.sin == "shows the token in an error" {
		return fmt.Errorf("token %s is spent: %w", req.Token, backend.ErrLost)
	}
	return backend.ErrLost
}

// owns reports whether the request's token has the record.
func (d *faultyDriver) owns(r *faultyRecord, req backend.Request) bool {
	switch d.sin {
	case "takes the owner for the token":
		return r.owner == req.Owner
	case "forgets the token":
		return false
	}
	return r.token == req.Token
}

// repeat answers an attempt with the token that has the record. d.mu is held.
func (d *faultyDriver) repeat(r *faultyRecord, req backend.Request) {
	end := time.Now().Add(d.rounded(req.TTL))
	if d.sin == "repeat shortens" {
		r.until = end
	}
	if end.After(r.until) && d.sin != "repeat does not refresh" {
		r.until = end
	}
	if d.sin == "repeat raises the fence" {
		r.fence++
	}
}

// take gives the key to the request. d.mu is held, but for the sins that look before they take.
func (d *faultyDriver) take(r *faultyRecord, req backend.Request) {
	if d.sin == "looks before it takes" || d.sin == "gives each repeat at once a term" {
		d.mu.Unlock()
		time.Sleep(time.Millisecond)
		d.mu.Lock()
		if d.sin == "gives each repeat at once a term" && !d.free(r) && r.token != req.Token {
			return
		}
	}
	d.grant(r, req)
}

// lose answers an attempt that finds the key held. d.mu is held.
func (d *faultyDriver) lose(ctx context.Context, r *faultyRecord, req backend.Request) error {
	switch d.sin {
	case "reports held as a failure":
		return errors.New("the key is taken")
	case "waits for the holder":
		for !d.free(r) && ctx.Err() == nil {
			d.mu.Unlock()
			time.Sleep(time.Millisecond)
			d.mu.Lock()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	case "writes on a losing attempt":
		r.seen++
	case "prolongs what it loses against":
		r.until = r.until.Add(mutantTTL)
	}
	h := d.holder(r)
	if d.sin == "names the loser as the holder" {
		h.Owner = req.Owner
	}
	return &backend.HeldError{Holder: h}
}

// mayStealNow commits the sin of taking a key that is held.
func (d *faultyDriver) mayStealNow(r *faultyRecord) bool {
	d.refused++
	return d.sin == "gives a held key away now and then" && !r.kept && d.refused%50 == 0
}

func (d *faultyDriver) anyHeld() bool {
	for _, r := range d.records {
		if !d.free(r) {
			return true
		}
	}
	return false
}

func (d *faultyDriver) Abandon(ctx context.Context, req backend.Request) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := d.mapped(req.Key)
	old, err := d.record(key)
	if err != nil {
		return err
	}
	if old == nil && d.sin == "abandon of a new key leaves no trace" {
		return nil
	}
	if d.free(old) && d.sin == "abandon of nothing fails" {
		return backend.ErrLost
	}
	r, err := d.create(key)
	if err != nil {
		return err
	}
	if r.token != "" && d.free(r) && d.sin == "abandon of an expired key leaves no trace" {
		return nil
	}
	if d.free(r) && d.sin != "abandon of a new key leaves no trace" {
		r.spent = req.Token
		return nil
	}
	if r.token == req.Token || d.sin == "abandon frees another's lease" {
		d.abandon(key, r, req)
	}
	return nil
}

// abandon frees the key that the request has. d.mu is held.
func (d *faultyDriver) abandon(key string, r *faultyRecord, req backend.Request) {
	switch d.sin {
	case "abandon does nothing":
	case "abandon leaves the token fresh":
		d.end(key, r, "", time.Now())
	case "abandon wakes nobody":
		d.end("", r, req.Token, time.Now())
	default:
		d.end(key, r, req.Token, time.Now())
	}
}

func (d *faultyDriver) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := d.enter(ctx); err != nil {
		return backend.Holder{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key = d.mapped(key)
	if d.sin == "shares a buffer between calls" {
		d.buffer = key
		d.mu.Unlock()
		time.Sleep(time.Millisecond)
		d.mu.Lock()
		key = d.buffer
	}
	if v := d.values[key]; v != nil && d.sin == "inspect shows a record" {
		return backend.Holder{Owner: string(v.value), Fence: 1}, nil
	}
	r, err := d.record(key)
	if err != nil {
		return backend.Holder{}, err
	}
	return d.inspect(r), nil
}

// inspect is Inspect of a record. d.mu is held.
func (d *faultyDriver) inspect(r *faultyRecord) backend.Holder {
	switch {
	case r != nil && r.token != "" && d.sin == "shows an expired lease":
	case r != nil && r.token == "" && d.sin == "shows the last owner of a free key":
		return backend.Holder{Owner: r.owner}
	case d.free(r):
		return backend.Holder{}
	}
	if d.sin == "writes on inspect" {
		r.seen++
	}
	h := d.holder(r)
	if d.sin == "shows another fence" {
		h.Fence++
	}
	return h
}

func (d *faultyDriver) inLimits(ttl time.Duration) error {
	if ttl < faultyMinTTL {
		return backend.WithKind(fmt.Errorf("ttl %v is under the minimum of %v", ttl, faultyMinTTL), backend.Misconfigured)
	}
	return nil
}

// mapped is the store's own name of a key.
func (s *faultyStore) mapped(key string) string {
	switch s.sin {
	case "folds case":
		return strings.ToLower(key)
	case "trims names":
		return strings.TrimSpace(key)
	case "strips accents":
		return strings.Map(func(r rune) rune {
			if unicode.Is(unicode.Mn, r) {
				return -1
			}
			return r
		}, key)
	case "replaces symbols":
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune(`{}*?[]:'"`, r) {
				return '_'
			}
			return r
		}, key)
	case "cuts long keys":
		return key[:min(len(key), 1024)]
	case "drops the slot":
		key, _, _ = strings.Cut(key, "#")
	}
	return key
}

func (s *faultyStore) copied(m map[string]string) map[string]string {
	if s.sin == "shares the caller's map" {
		return m
	}
	return maps.Clone(m)
}
