package status

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"
)

// The values of health.Status.
const (
	up   = "UP"
	down = "DOWN"
)

// probeEvery is the least time between two questions of the health check to the store.
const probeEvery = time.Second

// health is what the check answers.
type health struct {
	Status  string         `json:"status"`
	Backend string         `json:"backend"`
	Store   string         `json:"store"`
	Problem string         `json:"problem,omitempty"`
	Failing []failingLease `json:"failing,omitempty"`
}

type failingLease struct {
	Name  string  `json:"name"`
	Fence fence   `json:"fence"`
	For   seconds `json:"for"`
}

// Health returns a handler that answers 200 while all is well, and 503 while the store cannot be asked, which it finds
// out by asking, at most once a second and for at most two, or while a lease of an elector with the page's hooks has been
// failing to renew for over a third of its time. A lease that was lost by it counts as failing until the store has taken a
// lease of that name again, whoever has it, or for one lease time more after the last run here that tried for it has
// ended. The body says which, in JSON.
func (p *Page) Health() http.Handler {
	c := &check{page: p}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		only(c.serve, http.MethodGet, http.MethodHead)(w, r)
	})
}

// check is a health check.
type check struct {
	page   *Page
	probes aside[struct{}] // of the store

	mu    sync.Mutex
	asked time.Time // when the store answered, or failed, last
	err   error     // why it failed
}

func (c *check) serve(w http.ResponseWriter, r *http.Request) {
	p := c.page
	h := health{Status: up, Backend: p.driver.Name(), Store: up}
	if err := c.probe(r.Context()); err != nil {
		h.Store, h.Problem = down, problemOf(err)
	}
	h.Failing = p.renewals.failing(time.Now())
	code := http.StatusOK
	if h.Store == down || len(h.Failing) > 0 {
		h.Status, code = down, http.StatusServiceUnavailable
	}
	reply(w, code, h)
}

// probe asks the store, unless that was done a moment ago.
func (c *check) probe(ctx context.Context) error {
	c.mu.Lock()
	fresh, err := time.Since(c.asked) < probeEvery, c.err
	c.mu.Unlock()
	if !fresh {
		_, err = c.probes.call(ctx, c.ask)
	}
	return err
}

func (c *check) ask(ctx context.Context) (struct{}, error) {
	err := c.askAny(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.err = time.Now(), err
	return struct{}{}, err
}

// askAny asks about the leases that were lost, to see whether somebody has acquired them since, else about any key.
func (c *check) askAny(ctx context.Context) error {
	p := c.page
	losses := p.renewals.lately(atOnce)
	if len(losses) == 0 {
		_, err := p.driver.Inspect(ctx, p.probeKey())
		return err
	}
	errs := make([]error, len(losses))
	together(len(losses), func(n int) {
		h, err := p.driver.Inspect(ctx, losses[n].key)
		if errs[n] = err; err == nil && h.Fence != 0 && h.Fence != losses[n].fence {
			p.renewals.superseded(losses[n])
		}
	})
	return cmp.Or(errs...)
}

// probeKey is a key that the electors use as well, if one is known, since they have the right to.
func (p *Page) probeKey() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.id("health", false)
	found := false
	for i := range p.board.names {
		if !found || i.compare(first) < 0 {
			first, found = i, true
		}
	}
	return first.slotKey(0)
}
