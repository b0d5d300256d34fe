package wire

import (
	"context"
	"net/rpc"
	"sync"

	"github.com/goleader/leader/backend/raftleader/internal/machine"
)

// given are the attempts to acquire that were given up and may still be going on. The zero value is ready.
type given struct {
	mu       sync.Mutex
	attempts map[attempt]chan struct{} // closed when the attempt is over
}

// attempt is one at a server. At another server, which leads in another term, it has no effect any more.
type attempt struct{ server, token string }

// up notes that a call is no longer waited for. Only attempts to acquire matter.
func (g *given) up(server string, args any, done <-chan *rpc.Call) {
	r, ok := args.(*Request)
	if !ok || r.Topic != Propose || r.Command.Kind != machine.Acquire && r.Command.Kind != machine.AcquireSlot {
		return
	}
	a, over := attempt{server, r.Command.Token}, make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.attempts[a]
	if g.attempts == nil {
		g.attempts = map[attempt]chan struct{}{}
	}
	g.attempts[a] = over
	go func() {
		<-done // at the latest when the line ends
		if before != nil {
			<-before
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		close(over)
		if g.attempts[a] == over {
			delete(g.attempts, a)
		}
	}()
}

// await waits until the attempt is over, if there is one.
func (g *given) await(ctx context.Context, a attempt) error {
	g.mu.Lock()
	over := g.attempts[a]
	g.mu.Unlock()
	if over == nil {
		return nil
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
