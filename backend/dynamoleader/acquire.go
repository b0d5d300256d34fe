package dynamoleader

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/goleader/leader/backend"
)

// TryAcquire makes one attempt: one request if it wins, and one more where the service's time was not heard of for a
// minute, which the fence of a new item begins at. A losing attempt writes nothing, and is one request where the
// endpoint tells the item with its refusal.
func (b *Backend) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	if err := checkTTL(req.TTL); err != nil {
		return nil, err
	}
	v := b.memory.recall(req.Key)
	if _, _, ok := b.clock.bounds(); !ok {
		var err error
		if v, err = b.look(ctx, req.Key); err != nil {
			return nil, err
		}
		if v.taken() {
			return b.take(ctx, req, v)
		}
	}
	if !v.expired() {
		v = view{} // What was seen free a while ago, or taken, is asked by the attempt itself.
	}
	return b.acquire(ctx, req, v)
}

// acquire tries to take a key that was seen as v, and goes on with what it has become when that has changed.
func (b *Backend) acquire(ctx context.Context, req backend.Request, v view) (backend.Lease, error) {
	for try := 0; ; try++ {
		l, err := b.take(ctx, req, v)
		changed, ok := refusal(err)
		if !ok {
			return l, err
		}
		if try == conflictRetries {
			// Each time somebody else wrote in between, so it is they who have the key, or had it a moment ago.
			return nil, &backend.HeldError{}
		}
		if v, err = b.after(ctx, req.Key, changed); err != nil {
			return nil, err
		}
	}
}

// take makes a key the request's if v shows it free, on the condition that it is still so.
func (b *Backend) take(ctx context.Context, req backend.Request, v view) (backend.Lease, error) {
	if v.state != nil {
		switch {
		case v.token == req.Token:
			return b.repeat(ctx, req, v)
		case v.spent == req.Token:
			return nil, backend.ErrLost
		case v.taken():
			return nil, &backend.HeldError{Holder: v.holder()}
		}
	}
	g, err := b.grant(ctx, req)
	if err != nil {
		return nil, err
	}
	statement := acquire
	if v.expired() {
		statement = takeOver
		g.see(v.state)
	}
	won, err := b.change(ctx, req.Key, statement, g)
	if err != nil {
		return nil, err
	}
	return &lease{
		backend: b, term: won.term(), life: life{stamp: g.stamp, end: time.Now().Add(req.TTL)},
	}, nil
}

// repeat renews the lease that the token has already.
func (b *Backend) repeat(ctx context.Context, req backend.Request, v view) (backend.Lease, error) {
	// When the end was set is not known, only that it was before now.
	known := life{stamp: v.stamp, end: time.Now().Add(v.ttl)}
	renewed, err := b.renew(ctx, v.term(), known, req.TTL)
	if err != nil {
		return nil, err
	}
	return &lease{backend: b, term: v.term(), life: renewed}, nil
}

// change is what a statement is given.
type change struct {
	stamp  string
	params values
}

// newChange gives a lease, or what is kept of it, a new end.
func (b *Backend) newChange(ttl time.Duration) change {
	now := time.Now()
	if least, _, _ := b.clock.bounds(); least.After(now) {
		// The later of the two: one that is wrong must not make the lease look as if it were long over.
		now = least
	}
	stamp := rand.Text()
	return change{stamp: stamp, params: values{
		":format":  number(int64(format)),
		":zero":    number(int64(0)),
		":one":     number(int64(1)),
		":lease":   millis(ttl),
		":stamp":   text(stamp),
		":renewed": instant(now),
		":expires": expiry(now.Add(ttl)),
	}}
}

// grant is what starts a term of req.
func (b *Backend) grant(ctx context.Context, req backend.Request) (change, error) {
	metadata, err := encodeMetadata(req.Metadata)
	if err != nil {
		return change{}, err
	}
	now, _, err := b.serverTime(ctx, leasePlace(req.Key))
	if err != nil {
		return change{}, err
	}
	c := b.newChange(req.TTL)
	c.params[":key"] = text(req.Key)
	c.params[":token"] = text(req.Token)
	c.params[":owner"] = maybe(req.Owner)
	c.params[":metadata"] = text(metadata)
	c.params[":since"] = instant(now)
	c.params[":floor"] = number(now.UnixMicro())
	return c, nil
}

// see makes a state the condition of a change.
func (c change) see(s *state) {
	holder := s.token
	if holder == "" {
		holder = "-" // no token; an empty one is refused by older endpoints
	}
	c.params[":holder"] = text(holder)
	c.params[":seen"] = text(s.stamp)
	c.params[":fence"] = number(s.fence)
}

// Inspect reports the holder, in one request.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := b.ready(ctx); err != nil {
		return backend.Holder{}, err
	}
	v, err := b.look(ctx, key)
	if err != nil {
		return backend.Holder{}, err
	}
	return v.holder(), nil
}
