package status

import (
	"context"
	"time"

	"github.com/goleader/leader"
)

// Hooks returns hooks for the electors of this process, see leader.WithHooks. They let the page show at once what this
// process does, let [Page.Health] know of renewals that fail, and tell the names where the store cannot list them.
func (p *Page) Hooks() leader.Hooks {
	return leader.Hooks{
		Acquired: func(_ context.Context, l leader.LeaseInfo) {
			p.renewals.acquired(l)
			p.led(l)
		},
		Renewed: func(_ context.Context, l leader.LeaseInfo, took time.Duration) {
			p.renewals.renewed(l, time.Now().Add(-took))
		},
		RenewFailed: func(_ context.Context, l leader.LeaseInfo, _ error) { p.renewals.failed(l) },
		Lost: func(_ context.Context, l leader.LeaseInfo, cause error) {
			p.renewals.lost(l, cause)
			p.soon()
		},
		Released: func(_ context.Context, l leader.LeaseInfo) {
			p.renewals.released(l)
			p.soon()
		},
		ReleaseFailed: func(_ context.Context, l leader.LeaseInfo, _ error) { p.renewals.ended(l) },
		RunStarted: func(ctx context.Context, name string) context.Context {
			p.renewals.tried(name)
			p.wanted(name)
			return ctx
		},
		RunFinished: func(_ context.Context, name string, r leader.RunResult, _ error) { p.renewals.finished(name, r) },
	}
}

// led notes that this process has a lease.
func (p *Page) led(l leader.LeaseInfo) {
	if p.lister == nil {
		p.has(l.Key)
	}
	p.soon()
}

// has makes the name of a lease known, where the store cannot list it.
func (p *Page) has(key string) {
	i, slot, ok := parse(key)
	if !ok || !p.mine(i) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i.group {
		p.board.names.dropUnused(id{i.namespace, i.name, false})
	}
	p.board.tried(i, slot)
}

// mine reports whether the page is about the namespace of a name.
func (p *Page) mine(i id) bool {
	return p.options.Namespace == "" || p.options.Namespace == i.namespace
}

// wanted notes that this process tries for a name, where the store cannot list it. Whether it is that of a group is not
// known here.
func (p *Page) wanted(name string) {
	if p.lister != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.board.names[p.id(name, true)] == nil {
		p.board.tried(p.id(name, false), 0)
	}
}

// dropUnused forgets a name that was only guessed.
func (n names) dropUnused(i id) {
	if k := n[i]; k != nil && !k.pinned && k.seen.IsZero() {
		delete(n, i)
	}
}
