package etcdleader

import (
	"context"
	"slices"
	"time"
)

const (
	keeperTimeout = time.Second            // of one request of the keeper
	firstPause    = 250 * time.Millisecond // after a revocation that failed; then twice as long each time
	closeTimeout  = time.Second            // of the revocations of Close
)

// dying is a lease that is to be revoked.
type dying struct {
	*pooled

	token   string    // of the attempt that used it; "" if its outcome is known
	granted bool      // the server has had it
	until   time.Time // when it has ended by itself
	next    time.Time // when to try again
	pause   time.Duration
}

// revokeLater leaves a lease to the keeper.
func (k *pool) revokeLater(ctx context.Context, d *dying) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return // it ends by itself
	}
	k.dying = append(k.dying, d)
	k.keep(ctx, time.Time{})
}

// keep makes sure that the keeper runs, and looks at the given instant or before. k.mu is held.
func (k *pool) keep(ctx context.Context, at time.Time) {
	if k.stop == nil {
		// It serves later callers too, so it must not end with the first one's context.
		ctx, k.stop = context.WithCancel(context.WithoutCancel(ctx))
		k.running.Go(func() { k.work(ctx) })
		return
	}
	if at.Before(k.next) {
		k.next = at
		select {
		case k.signal <- struct{}{}:
		default:
		}
	}
}

// work revokes leases and keeps the idle ones alive, until ctx ends or there is none.
func (k *pool) work(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		k.revokeDue(ctx)
		k.refreshDue(ctx)
		next, ok := k.nextDue()
		if !ok {
			return
		}
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
		case <-k.signal:
		case <-ctx.Done():
			k.revokeAll(ctx)
			return
		}
	}
}

// nextDue is when there is something to do. If there is nothing the keeper ends.
func (k *pool) nextDue() (next time.Time, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	first := func(at time.Time) {
		if !ok || at.Before(next) {
			next, ok = at, true
		}
	}
	for _, d := range k.dying {
		first(d.next)
	}
	for _, list := range k.idle {
		for _, p := range list {
			first(p.due())
		}
	}
	if k.next = next; !ok {
		k.stop()
		k.stop = nil
	}
	return next, ok
}

// due is when an idle lease needs a keep-alive, or has been idle for too long.
func (p *pooled) due() time.Time {
	refresh, end := p.kept.Add(p.ttl/3), p.idle.Add(idleTime)
	if end.Before(refresh) {
		return end
	}
	return refresh
}

// refreshDue keeps idle leases alive. Meanwhile they are not in the pool, so that nobody takes one whose keep-alive is
// not answered.
func (k *pool) refreshDue(ctx context.Context) {
	for _, p := range k.takeDue() {
		since := p.idle
		step, cancel := context.WithTimeout(ctx, keeperTimeout)
		err := k.renew(step, p).wait(step)
		cancel()
		if err != nil || ctx.Err() != nil {
			k.mu.Lock()
			k.dying = append(k.dying, k.poisoned(p, "")) // also while the pool is being closed
			k.mu.Unlock()
			continue
		}
		k.put(ctx, p)
		k.mu.Lock()
		p.idle = since
		k.mu.Unlock()
	}
}

// takeDue takes those leases out of the pool that are due. Those that were idle for too long are dying.
func (k *pool) takeDue() (list []*pooled) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for _, idle := range k.idle {
		for _, p := range slices.Clone(idle) {
			switch {
			case now.Sub(p.idle) >= idleTime:
				k.remove(p)
				k.dying = append(k.dying, &dying{pooled: p, granted: true, until: p.kept.Add(p.ttl)})
			case !now.Before(p.due()):
				k.remove(p)
				list = append(list, p)
			}
		}
	}
	return list
}

// revokeDue tries each dying lease whose time has come.
func (k *pool) revokeDue(ctx context.Context) {
	k.mu.Lock()
	list := slices.Clone(k.dying)
	k.mu.Unlock()
	for _, d := range list {
		now := time.Now()
		if now.Before(d.next) || ctx.Err() != nil {
			continue
		}
		if now.After(d.until) {
			k.forget(d)
			continue
		}
		step, cancel := context.WithTimeout(ctx, keeperTimeout)
		over, _ := k.revokeNow(step, d) // It is tried again.
		cancel()
		if !over {
			d.pause = max(firstPause, 2*d.pause)
			k.mu.Lock()
			d.next = time.Now().Add(d.pause)
			k.mu.Unlock()
		}
	}
}

// revokeNow revokes a dying lease. It is over if the server had it: a grant may still be on its way to a server that
// has not.
func (k *pool) revokeNow(ctx context.Context, d *dying) (over bool, err error) {
	found, err := k.revoke(ctx, d.id)
	if err != nil {
		return false, err
	}
	if found || d.granted {
		k.forget(d)
		return true, nil
	}
	return false, nil
}

func (k *pool) forget(d *dying) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(k.dying, d); i >= 0 {
		k.dying = slices.Delete(k.dying, i, i+1)
	}
}

// settle revokes the leases of earlier attempts with a token, so that what is still on its way takes nothing.
func (k *pool) settle(ctx context.Context, token string) error {
	k.mu.Lock()
	var list []*dying
	for _, d := range k.dying {
		if d.token == token {
			list = append(list, d)
		}
	}
	k.mu.Unlock()
	for _, d := range list {
		if _, err := k.revokeNow(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// close ends the keeper, which revokes what the pool has, and the keep-alives.
func (k *pool) close() {
	k.mu.Lock()
	k.closed = true
	stop := k.stop
	k.mu.Unlock()
	if stop != nil {
		stop()
	}
	k.running.Wait()
	k.alive.close()
}

// revokeAll empties the pool. What it cannot revoke in time ends by itself.
func (k *pool) revokeAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	for _, id := range k.drain() {
		if _, err := k.revoke(ctx, id); err != nil {
			return
		}
	}
}

// drain empties the pool.
func (k *pool) drain() (ids []int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, list := range k.idle {
		for _, p := range list {
			ids = append(ids, p.id)
		}
	}
	for _, d := range k.dying {
		ids = append(ids, d.id)
	}
	k.dying, k.size = nil, 0
	clear(k.idle)
	return ids
}
