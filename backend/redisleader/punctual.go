package redisleader

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// grain is how much later than its context's deadline a call may end, so that a few clients serve all deadlines.
const grain = 50 * time.Millisecond

// punctual makes calls end with the deadline of their context. go-redis waits for its own read timeout unless its
// ContextTimeoutEnabled is set, so a call is made by a client that shares all of the user's but has a shorter one.
type punctual struct {
	client  *redis.Client // nil if the client heeds deadlines itself, or is none that can be told to
	heeds   bool
	clients sync.Map // *redis.Client by read timeout
}

func newPunctual(client redis.UniversalClient) *punctual {
	switch c := client.(type) {
	case *redis.Client:
		if c == nil {
			return &punctual{}
		}
		if c.Options().ContextTimeoutEnabled {
			return &punctual{heeds: true}
		}
		return &punctual{client: c, heeds: true}
	case *redis.ClusterClient:
		return &punctual{heeds: c != nil && c.Options().ContextTimeoutEnabled}
	}
	return &punctual{}
}

// by returns the client for a call on ctx, nil if it is the user's own.
func (p *punctual) by(ctx context.Context) redis.UniversalClient {
	end, ok := ctx.Deadline()
	if p.client == nil || !ok {
		return nil
	}
	timeout := (time.Until(end)/grain + 1) * grain
	if own := p.client.Options().ReadTimeout; own > 0 && own <= timeout {
		return nil
	}
	if c, ok := p.clients.Load(timeout); ok {
		return c.(*redis.Client) // nothing else is stored
	}
	c, _ := p.clients.LoadOrStore(timeout, p.client.WithTimeout(timeout))
	return c.(*redis.Client)
}
