package k8sleader

import (
	"context"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
)

// life is what is known of the end of a lease.
type life struct {
	stamp string    // of the last renewal
	end   time.Time // not before this may anybody else have it, by this process's clock
	rv    uint64    // the version of the object with that renewal
}

// lease is a granted right.
type lease struct {
	backend *Backend
	term    term

	mu   sync.Mutex
	life life
	loss *loss // nil until somebody asked for it
}

// newLease is the lease that an update has just granted.
func (b *Backend) newLease(s *state, req backend.Request) *lease {
	return &lease{
		backend: b,
		term:    s.term(),
		life:    life{stamp: s.stamp, end: time.Now().Add(req.TTL), rv: s.rv},
	}
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
		if err := l.backend.free(ctx, l.term, known.stamp, 0, asItIs); err != nil {
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
	if renewed.rv > l.life.rv {
		l.life = renewed
	}
	if l.loss != nil {
		l.loss.resume() //nolint:contextcheck // It follows the lease for longer than this call.
	}
	return nil
}

// Release is one request. A lease that has expired is not kept, but what an earlier release has kept stays so.
func (l *lease) Release(ctx context.Context, keep time.Duration) error {
	if err := l.backend.ready(ctx); err != nil {
		return err
	}
	if err := checkKeep(keep); err != nil {
		return err
	}
	l.mu.Lock()
	if l.loss != nil {
		l.loss.stop()
	}
	l.mu.Unlock()
	known := l.alive()
	first := keep
	if !time.Now().Before(known.end) {
		first = 0
	}
	return l.backend.free(ctx, l.term, known.stamp, first, keep)
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
		sent := time.Now()
		lasts := max(ttl, known.end.Sub(sent))
		s, err := b.patch(ctx, t.name, renewal(t, known.stamp, lasts))
		switch {
		case err == nil:
			return life{stamp: s.stamp, end: time.Now().Add(lasts), rv: s.rv}, nil
		case isMissing(err):
			return life{}, backend.ErrLost
		case !isChanged(err) || try == conflictRetries:
			return life{}, err
		}
		v, failed := b.get(ctx, t.name)
		switch {
		case failed != nil:
			return life{}, failed
		case v.state == nil || !t.holds(v.state):
			return life{}, backend.ErrLost
		case v.stamp == known.stamp && !isConflict(err): // so it is refused for another reason
			return life{}, err
		}
		renewed := life{stamp: v.stamp, end: time.Now().Add(v.ttl), rv: v.rv}
		// A renewal that came after the first look began after this call did, and is as good as its own.
		if looked && v.stamp != known.stamp && v.ttl >= ttl {
			return renewed, nil
		}
		known, looked = renewed, true
	}
}

// asItIs leaves a kept key kept.
const asItIs time.Duration = -1

// free ends a term with the stamp that is known, or keeps its key for a time: first, if the term has the key, again, if an
// earlier release has kept it. It is nil also if the term is over already.
func (b *Backend) free(ctx context.Context, t term, stamp string, first, again time.Duration) error {
	o := ending(t, stamp, first)
	for try := 0; ; try++ {
		_, err := b.patch(ctx, t.name, o)
		switch {
		case err == nil, isMissing(err):
			return nil
		case !isChanged(err) || try == conflictRetries:
			return err
		}
		v, failed := b.get(ctx, t.name)
		switch {
		case failed != nil:
			return failed
		case v.state == nil:
			return nil
		case t.holds(v.state):
			o = ending(t, v.stamp, first)
		case v.tenure == kept && v.spent == t.token && v.taken() && again != asItIs:
			o = keeping(t, v.stamp, again)
		default:
			return nil
		}
	}
}
