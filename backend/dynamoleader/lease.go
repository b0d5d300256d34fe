package dynamoleader

import (
	"context"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

// term is who has a key, and under which fence.
type term struct {
	key   string
	token string
	fence uint64
}

// holds reports whether the term has the key still.
func (t term) holds(s *state) bool { return s != nil && s.token == t.token && s.fence == t.fence }

// identify makes the term the condition of a change.
func (t term) identify(c change) {
	c.params[":token"] = text(t.token)
	c.params[":fence"] = number(t.fence)
}

// life is what is known of the end of a lease.
type life struct {
	stamp string    // of the last renewal
	end   time.Time // by this process's clock, not before the lease is over for whoever looks on
}

// lease is a granted right.
type lease struct {
	backend *Backend
	term    term

	mu   sync.Mutex
	life life
}

func (l *lease) Fence() uint64 { return l.term.fence }

// Renew is one request, and up to three more if another renewal of this lease comes between.
func (l *lease) Renew(ctx context.Context, ttl time.Duration) error {
	if err := l.backend.ready(ctx); err != nil {
		return err
	}
	if err := checkTTL(ttl); err != nil {
		return err
	}
	known := l.alive()
	if !time.Now().Before(known.end) {
		// Others may have seen it expire, so it has to be over for everybody.
		if err := l.backend.free(ctx, l.term, lapse); err != nil {
			return err
		}
		return backend.ErrLost
	}
	renewed, err := l.backend.renew(ctx, l.term, known, ttl)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if renewed.end.After(l.life.end) {
		l.life = renewed
	}
	return nil
}

// Release is one request, or two if the lease is to be kept and has expired: then it is kept only if it is already.
func (l *lease) Release(ctx context.Context, keep time.Duration) error {
	if err := l.backend.ready(ctx); err != nil {
		return err
	}
	if err := checkKeep(keep); err != nil {
		return err
	}
	if keep > 0 && !time.Now().Before(l.alive().end) {
		err := l.backend.keepFor(ctx, l.term, keepOn, keep)
		if _, refused := refusal(err); !refused {
			return err
		}
		keep = 0
	}
	if keep > 0 {
		return l.backend.keep(ctx, l.term, keep)
	}
	return l.backend.free(ctx, l.term, release)
}

func (l *lease) alive() life {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.life
}

// renew moves the end of a term to ttl from now, and never to an earlier instant.
func (b *Backend) renew(ctx context.Context, t term, known life, ttl time.Duration) (life, error) {
	looked := false
	for try := 0; ; try++ {
		lasts := max(ttl, time.Until(known.end))
		c := b.newChange(lasts)
		t.identify(c)
		c.params[":seen"] = text(known.stamp)
		_, err := b.change(ctx, t.key, renew, c)
		if err == nil {
			return life{stamp: c.stamp, end: time.Now().Add(lasts)}, nil
		}
		changed, ok := refusal(err)
		switch {
		case !ok:
			return life{}, err
		case try == conflictRetries:
			return life{}, errBusy
		}
		v, failed := b.after(ctx, t.key, changed)
		switch {
		case failed != nil:
			return life{}, failed
		case !t.holds(v.state):
			return life{}, backend.ErrLost
		}
		renewed := life{stamp: v.stamp, end: time.Now().Add(v.ttl)}
		// A renewal that came after the first look began after this call did, and is as good as its own.
		if looked && v.stamp != known.stamp && v.ttl >= ttl {
			return renewed, nil
		}
		known, looked = renewed, true
	}
}

// free ends a term by one of the statements for that. It is nil also if the term is over already.
func (b *Backend) free(ctx context.Context, t term, s *statement) error {
	c := b.newChange(0)
	t.identify(c)
	return b.settle(ctx, t, b.end(ctx, t.key, s, c))
}

// keep ends a term and keeps its key for a time. It is nil also if the term is over already.
func (b *Backend) keep(ctx context.Context, t term, d time.Duration) error {
	return b.settle(ctx, t, b.keepFor(ctx, t, keep, d))
}

// settle takes a refusal for the answer that a term is over already, unless its item cannot be read.
func (b *Backend) settle(ctx context.Context, t term, err error) error {
	changed, ok := refusal(err)
	if !ok {
		return err
	}
	_, err = b.after(ctx, t.key, changed)
	return err
}

// keepFor leaves a key taken by nobody.
func (b *Backend) keepFor(ctx context.Context, t term, s *statement, d time.Duration) error {
	c := b.newChange(d)
	t.identify(c)
	_, err := b.change(ctx, t.key, s, c)
	return err
}
