package raftleader

import (
	"context"
	"crypto/rand"
	"errors"
	mrand "math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/goleader/leader/backend"
)

const (
	askTimeout   = 400 * time.Millisecond
	afterUnknown = 100 * time.Millisecond
	longTTL      = time.Hour
)

// driver is what the clients use of a node.
type driver interface {
	backend.Driver
	backend.Breaker
	backend.Records
}

// recorder takes down a history.
type recorder struct {
	began time.Time

	mu        sync.Mutex
	history   []porcupine.Operation
	clients   int
	forgotten int // leases that were left to their end
	count     map[action]map[result]int
}

func newRecorder() *recorder {
	return &recorder{began: time.Now(), count: map[action]map[result]int{}}
}

// ask has a question answered, and takes both down. A question of unknown outcome that changes nothing is left out, as
// is a renewal, which without an answer allows no more than there was.
func (h *recorder) ask(client int, q question, ask func() reply) reply {
	q.call = int64(time.Since(h.began))
	r := ask()
	r.back = int64(time.Since(h.began))
	if r.result == unknown {
		r.back = never
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count[q.action] == nil {
		h.count[q.action] = map[result]int{}
	}
	h.count[q.action][r.result]++
	if r.result != unknown || q.action != inspecting && q.action != getting && q.action != renewing {
		h.history = append(h.history, porcupine.Operation{ClientId: client, Input: q, Call: q.call, Output: r, Return: r.back})
	}
	return r
}

// of returns the part of the history that is about records, or about leases.
func (h *recorder) of(records bool) []porcupine.Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	var part []porcupine.Operation
	for _, o := range h.history {
		switch o.Input.(question).action {
		case putting, getting, deleting:
			if records {
				part = append(part, o)
			}
		default:
			if !records {
				part = append(part, o)
			}
		}
	}
	return part
}

// client asks random questions about few keys, most of which have to do with what was answered before.
type client struct {
	*recorder
	*mrand.Rand

	id      int
	pick    func() driver // some node; nil if it is away
	keys    int
	ttl     time.Duration
	grants  map[string]grant
	doubted map[string]string // the token of an attempt of unknown outcome
	fences  map[string]uint64 // the last one that was seen
	version map[string]string
}

// grant is a lease, or one that was.
type grant struct {
	backend.Lease

	token string
}

func (h *recorder) newClient(seed uint64, keys int, ttl time.Duration, pick func(r *mrand.Rand) driver) *client {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients++
	r := mrand.New(mrand.NewPCG(seed, uint64(h.clients)))
	return &client{
		recorder: h, Rand: r, id: h.clients, keys: keys, ttl: ttl, pick: func() driver { return pick(r) },
		grants: map[string]grant{}, doubted: map[string]string{}, fences: map[string]uint64{}, version: map[string]string{},
	}
}

// run asks until ctx ends.
func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := time.Duration(c.IntN(4)) * time.Millisecond
		if d := c.pick(); d == nil || c.step(ctx, d) == unknown {
			pause = afterUnknown
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (c *client) step(ctx context.Context, d driver) result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	n := strconv.Itoa(c.IntN(c.keys))
	if c.IntN(4) == 0 {
		return c.record(ctx, d, "r"+n+"!x/")
	}
	key := "k" + n
	if token, ok := c.doubted[key]; ok && c.IntN(2) == 0 {
		return c.settle(ctx, d, key, token)
	}
	if g, ok := c.grants[key]; ok && c.IntN(3) != 0 {
		return c.use(ctx, d, key, g)
	}
	switch dice := c.IntN(10); {
	case dice < 5:
		return c.acquire(ctx, d, key, rand.Text())
	case dice < 8 || c.ttl < longTTL:
		return c.inspect(ctx, d, key)
	}
	return c.breaks(ctx, d, key)
}

// forgets reports whether a lease is neither released nor renewed, so that it has to end by itself. None is where that
// takes too long.
func (c *client) forgets() bool {
	if c.ttl == longTTL || c.IntN(2) == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgotten++
	return true
}

// use does something with a lease.
func (c *client) use(ctx context.Context, d driver, key string, g grant) result {
	switch dice := c.IntN(10); {
	case dice < 4:
		q := question{action: renewing, key: key, token: g.token, fence: g.Fence(), ttl: int64(c.ttl)}
		r := c.ask(c.id, q, func() reply { return replied(g.Renew(ctx, c.ttl)) }).result
		if r == unknown {
			delete(c.grants, key) // its node may be gone: the token is used again elsewhere
			c.doubted[key] = g.token
		}
		return r
	case dice < 5:
		return c.acquire(ctx, d, key, g.token)
	case dice < 6:
		delete(c.grants, key)
		return c.abandon(ctx, d, key, g.token)
	}
	keep := time.Duration(0)
	if c.IntN(4) == 0 {
		keep = c.ttl // and it is released later, or broken
	} else {
		delete(c.grants, key)
	}
	q := question{action: releasing, key: key, token: g.token, fence: g.Fence(), keep: int64(keep)}
	return c.ask(c.id, q, func() reply { return replied(g.Release(ctx, keep)) }).result
}

// settle repeats an attempt of unknown outcome, or gives it up.
func (c *client) settle(ctx context.Context, d driver, key, token string) result {
	if c.IntN(2) == 0 {
		return c.acquire(ctx, d, key, token)
	}
	r := c.abandon(ctx, d, key, token)
	if r == done {
		delete(c.doubted, key)
	}
	return r
}

func (c *client) acquire(ctx context.Context, d driver, key, token string) result {
	q := question{action: acquiring, key: key, token: token, ttl: int64(c.ttl)}
	var l backend.Lease
	r := c.ask(c.id, q, func() reply {
		var err error
		l, err = d.TryAcquire(ctx, backend.Request{Key: key, Token: token, Owner: token, TTL: c.ttl})
		r := replied(err)
		if err == nil {
			r.fence = l.Fence()
		}
		return r
	})
	if r.result == unknown {
		c.doubted[key] = token
		return unknown
	}
	if c.doubted[key] == token {
		delete(c.doubted, key)
	}
	switch r.result {
	case done:
		c.grants[key] = grant{l, token}
		if c.forgets() {
			delete(c.grants, key)
		}
	case held:
		c.fences[key] = r.fence
	default:
	}
	return r.result
}

func (c *client) abandon(ctx context.Context, d driver, key, token string) result {
	q := question{action: abandoning, key: key, token: token}
	return c.ask(c.id, q, func() reply {
		return replied(d.Abandon(ctx, backend.Request{Key: key, Token: token, Owner: token, TTL: c.ttl}))
	}).result
}

func (c *client) inspect(ctx context.Context, d driver, key string) result {
	r := c.ask(c.id, question{action: inspecting, key: key}, func() reply {
		h, err := d.Inspect(ctx, key)
		r := replied(err)
		r.free, r.owner, r.fence, r.kept = h.Free(), h.Owner, h.Fence, h.Kept
		return r
	})
	c.fences[key] = r.fence
	return r.result
}

func (c *client) breaks(ctx context.Context, d driver, key string) result {
	q := question{action: breaking, key: key, fence: c.fences[key]}
	if q.fence == 0 {
		return c.inspect(ctx, d, key)
	}
	return c.ask(c.id, q, func() reply { return replied(d.Break(ctx, key, q.fence)) }).result
}

// record does something with the only record of a set.
func (c *client) record(ctx context.Context, d driver, set string) result {
	key := set + "1"
	switch dice := c.IntN(10); {
	case dice < 4:
		r := c.ask(c.id, question{action: getting, key: key}, func() reply { return get(ctx, d, set) })
		c.version[key] = r.version
		return r.result
	case dice < 8:
		q := question{action: putting, key: key, version: c.version[key], value: rand.Text()}
		r := c.ask(c.id, q, func() reply {
			v, err := d.PutRecord(ctx, backend.Record{Key: key, Version: q.version, Value: []byte(q.value)})
			r := replied(err)
			r.version = v
			return r
		})
		if r.result == done {
			c.version[key] = r.version
		}
		return r.result
	}
	q := question{action: deleting, key: key, version: c.version[key]}
	return c.ask(c.id, q, func() reply {
		return replied(d.DeleteRecord(ctx, backend.Record{Key: key, Version: q.version}))
	}).result
}

func get(ctx context.Context, d driver, set string) reply {
	list, _, err := d.GetRecords(ctx, set)
	r := replied(err)
	if len(list) > 0 {
		r.found, r.version, r.value = true, list[0].Version, string(list[0].Value)
	}
	return r
}

func replied(err error) reply {
	if h, ok := errors.AsType[*backend.HeldError](err); ok {
		return reply{result: held, owner: h.Holder.Owner, fence: h.Holder.Fence, kept: h.Holder.Kept}
	}
	switch {
	case err == nil:
		return reply{result: done}
	case errors.Is(err, backend.ErrLost):
		return reply{result: lost}
	case errors.Is(err, backend.ErrConflict):
		return reply{result: conflict}
	}
	return reply{result: unknown}
}

// askAll lets several clients ask until ctx ends.
func (h *recorder) askAll(ctx context.Context, n, keys int, ttl time.Duration, pick func(r *mrand.Rand) driver) {
	var asking sync.WaitGroup
	for i := range n {
		c := h.newClient(uint64(i), keys, ttl, pick)
		asking.Go(func() { c.run(ctx) })
	}
	asking.Wait()
}

// check checks the history for linearizability.
func (h *recorder) check(t *testing.T, expire bool) {
	t.Helper()
	t.Logf("answers: %v", h.count)
	for name, part := range map[string]struct {
		model   porcupine.Model
		history []porcupine.Operation
	}{"leases": {leases(expire), h.of(false)}, "records": {records(), h.of(true)}} {
		began := time.Now()
		found, info := porcupine.CheckOperationsVerbose(part.model, part.history, checkTimeout)
		t.Logf("%s: %d operations: %v after %v", name, len(part.history), found, time.Since(began).Round(time.Millisecond))
		if found == porcupine.Ok {
			continue
		}
		path := t.ArtifactDir() + "/" + name + ".html"
		t.Errorf("the history of the %s: %v; see %s (%v)", name, found, path, porcupine.VisualizePath(part.model, info, path))
	}
}

const checkTimeout = time.Minute
