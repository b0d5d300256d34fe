package zkleader

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	// clockNode is a node that is written to learn the time. No key of the engine begins like that.
	clockNode = "/!clock"
	// clockAge is for how long a reading of the server's clock is used.
	clockAge = time.Minute
)

// clock is what is known of the server's clock, which every answer to a write tells. The zero value knows nothing.
type clock struct {
	mu       sync.Mutex
	server   int64     // in ms
	answered time.Time // the instant, by our clock, when server had certainly passed
}

// note takes the time of a write whose answer has just come.
func (c *clock) note(server int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.answered = server, time.Now()
}

// now is an instant that the server's clock has reached, in ms, as two clocks part by under 0.1 %; ok is false if that
// is not known.
func (c *clock) now() (ms int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	age := time.Since(c.answered)
	return c.server + (age - age/1000).Milliseconds(), c.server != 0 && age < clockAge
}

// readClock learns the time by a write, unless it is known. Whoever may not write has to do without.
func (b *Backend) readClock(ctx context.Context) error {
	if _, ok := b.clock.now(); ok {
		return nil
	}
	path := b.options.Root + clockNode
	return b.do(ctx, path, func(s *session) error {
		stat, err := s.conn.Set(path, nil, -1)
		if errors.Is(err, zk.ErrNoNode) {
			if err = b.create(s, path); err == nil {
				stat, err = s.conn.Set(path, nil, -1)
			}
		}
		if errors.Is(err, zk.ErrNoAuth) {
			return nil
		}
		if err == nil {
			b.clock.note(stat.Mtime)
		}
		return err
	})
}
