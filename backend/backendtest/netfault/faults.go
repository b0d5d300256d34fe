package netfault

import (
	"context"
	"time"
)

type mode uint8

const (
	forwarding mode = iota
	frozen
	dropping
	cut
)

// Freeze stops forwarding in both directions and keeps every connection open, without a FIN or RST, until Thaw. New
// connections are accepted, and reach the server after the thaw. Clients that close meanwhile do not take back what
// they sent.
func (p *Proxy) Freeze() { p.change(frozen) }

// Thaw ends Freeze. Everything that waited goes on, in order. It has no effect on other faults.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == frozen {
		p.set(forwarding, p.delay)
	}
}

// Drop loses all bytes in both directions until Mend and keeps every connection open. Frozen bytes are lost too.
// Mend resets the connections that lost something, and those made meanwhile.
func (p *Proxy) Drop() { p.change(dropping) }

// Cut resets all connections, and until Mend each new one as soon as it is made. Cut followed by Mend interrupts
// clients for a moment.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(cut, p.delay)
	p.resetWhere(func(*link) bool { return true })
}

// Delay holds every chunk back for d from its arrival, in both directions, and the end of a stream likewise. Chunks
// that arrive in that time go on together, so the last byte of a busy stream may wait for up to twice d. Delay(0)
// ends it, also for what is waiting.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(p.mode, d)
}

// Mend ends every fault: frozen bytes and held requests go on, new connections are served, traps are disarmed, and
// connections that lost bytes are reset.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resetWhere(func(l *link) bool { return l.lost || l.muted != nil })
	for l := range p.links {
		if l.held != nil {
			l.held.released.fire()
		}
	}
	for _, t := range p.traps {
		t.settle(nil)
	}
	p.traps = nil
	p.set(forwarding, 0)
}

func (p *Proxy) change(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(m, p.delay)
}

// set is called with p.mu held, as is resetWhere.
func (p *Proxy) set(m mode, delay time.Duration) {
	p.mode, p.delay = m, delay
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) resetWhere(match func(*link) bool) {
	for l := range p.links {
		if match(l) {
			l.reset()
			delete(p.links, l)
		}
	}
}

// await returns when it is the turn of what arrived on l at the given time, and whether it is lost. That is decided
// under the lock, so that Mend overlooks no link that lost something.
func (p *Proxy) await(ctx context.Context, l *link, arrival time.Time) (lost bool, err error) {
	for {
		p.mu.Lock()
		l.lost = l.lost || p.mode == dropping
		lost = l.lost
		stopped, wait, changed := p.mode == frozen, time.Until(arrival.Add(p.delay)), p.changed
		p.mu.Unlock()

		if lost || !stopped && wait <= 0 {
			return lost, ctx.Err()
		}
		var due <-chan time.Time // never, while frozen
		if !stopped {
			due = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-changed:
		case <-due:
		}
	}
}
