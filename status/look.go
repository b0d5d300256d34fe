package status

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/key"
)

const (
	atOnce = 16 // requests under way
	// rarely is the time between two looks at the history and at the candidates.
	rarely = 2 * time.Second
)

// refresh looks at the store unless somebody does already, and waits for what that brings.
func (p *Page) refresh(ctx context.Context) {
	_, err := p.looks.call(ctx, p.look)
	if errors.Is(err, errNoAnswer) {
		p.failed(ctx, err)
	}
}

// refreshAll is refresh, also of candidates and events if they are old.
func (p *Page) refreshAll(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { p.refresh(ctx) })
	all.Go(func() { p.refreshElections(ctx) })
	all.Go(func() { p.refreshEvents(ctx) })
	all.Wait()
}

// look asks the store once for all names.
func (p *Page) look(ctx context.Context) (struct{}, error) {
	list, err := p.ask(ctx)
	if err != nil {
		p.failed(ctx, err)
		return struct{}{}, err
	}
	p.mu.Lock()
	recovered := p.board.problem != ""
	p.board.answered(list, time.Now())
	p.tell(false)
	p.mu.Unlock()
	if recovered {
		p.logger().LogAttrs(ctx, slog.LevelInfo, "store can be asked again", slog.String("leader.backend", p.driver.Name()))
	}
	return struct{}{}, nil
}

// failed notes that the store cannot be asked. Why is for the log: it may say more than viewers should know.
func (p *Page) failed(ctx context.Context, err error) {
	p.mu.Lock()
	begun := p.board.problem == ""
	p.board.problem, p.board.failed = problemOf(err), time.Now()
	p.tell(false)
	p.mu.Unlock()
	if begun {
		p.logger().LogAttrs(ctx, slog.LevelWarn, "store cannot be asked who leads",
			slog.String("leader.backend", p.driver.Name()), slog.Any("err", err))
	}
}

// problemOf says what is wrong with the store without saying where.
func problemOf(err error) string {
	const text = "the store cannot be asked: it "
	switch kind := backend.KindOf(err); {
	case kind == backend.Denied:
		return text + "denies access"
	case kind == backend.Misconfigured:
		return text + "is misconfigured"
	case kind == backend.Unavailable:
		return text + "is unavailable"
	case errors.Is(err, errNoAnswer), errors.Is(err, context.DeadlineExceeded):
		return text + "does not answer"
	}
	return text + "fails"
}

func (p *Page) ask(ctx context.Context) ([]found, error) {
	if p.lister == nil {
		return p.inspectAll(ctx)
	}
	var list []found
	sent := time.Now()
	for e, err := range p.lister.List(ctx, key.Prefix(p.options.Namespace), true) {
		if err != nil {
			return nil, err
		}
		if i, slot, ok := parse(e.Key); ok {
			list = append(list, found{i, slot, e.Holder, !e.Kept && e.Remaining == 0, sent})
		}
	}
	return list, ctx.Err()
}

// inspectAll asks for each name that is known, where the store cannot list them.
func (p *Page) inspectAll(ctx context.Context) ([]found, error) {
	var list []found
	p.mu.Lock()
	for i, k := range p.board.names {
		slots := 1
		if i.group {
			slots = max(k.capacity, k.reach)
		}
		for slot := range slots {
			list = append(list, found{id: i, slot: slot})
		}
	}
	p.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	together(len(list), func(n int) {
		f := &list[n]
		if ctx.Err() != nil {
			return
		}
		var err error
		f.sent = time.Now()
		if f.holder, err = p.driver.Inspect(ctx, f.slotKey(f.slot)); err != nil {
			cancel(err)
		}
		f.expired = f.holder.Free()
	})
	return list, context.Cause(ctx)
}

// together calls f for each number below n, several at once.
func together(n int, f func(n int)) {
	places := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			f(i)
		})
	}
	all.Wait()
}

// refreshElections asks about the candidates unless that was done a moment ago.
func (p *Page) refreshElections(ctx context.Context) {
	p.mu.Lock()
	due := time.Since(p.board.explains) >= rarely
	p.mu.Unlock()
	if due && !p.elections.busy() {
		_, _ = p.elections.call(ctx, p.explain) // what fails is shown as it was
	}
}

func (p *Page) explain(ctx context.Context) (struct{}, error) {
	asked := make(map[id]Election)
	var ids []id
	p.mu.Lock()
	p.board.explains = time.Now()
	for i, k := range p.board.names {
		if k.election != nil {
			asked[i] = k.election
			ids = append(ids, i)
		}
	}
	p.mu.Unlock()
	answers := make([][]candidate, len(ids))
	together(len(ids), func(n int) {
		e, err := asked[ids[n]].Election(ctx, ids[n].name)
		if err == nil {
			answers[n] = candidatesOf(e)
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, i := range ids {
		if answers[n] != nil {
			p.board.names[i].candidates = answers[n]
		}
	}
	p.tell(false)
	return struct{}{}, nil
}
