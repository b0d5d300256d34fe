package mongoleader

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
)

// bus stands in for the change streams of a server that has none. It makes the events itself, out of the successful
// commands of the clients that it monitors.
type bus struct {
	opened atomic.Int64 // streams so far

	mu      sync.Mutex
	refusal error // of open
	streams map[*busStream]string
	started map[int64]busChange // commands on their way, by request
}

// busChange is what a command changes if it succeeds.
type busChange struct{ db, key string }

// busStream is a stream of one database.
type busStream struct {
	bus    *bus
	events chan string
	broken chan error
}

func newBus() *bus {
	return &bus{streams: make(map[*busStream]string), started: make(map[int64]busChange)}
}

// attach makes a backend take its changes from the bus.
func (u *bus) attach(b *Backend) {
	b.feed.idle = 10 * quietTime
	b.feed.open = func(context.Context) (stream, error) {
		u.opened.Add(1)
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.refusal != nil {
			return nil, u.refusal
		}
		s := &busStream{bus: u, events: make(chan string, 10_000), broken: make(chan error, 1)}
		u.streams[s] = b.db.Name()
		return s, nil
	}
}

// breakAll makes every open stream fail.
func (u *bus) breakAll(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for s := range u.streams {
		s.broken <- err
	}
}

func (u *bus) open() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.streams)
}

func (u *bus) monitor() *event.CommandMonitor {
	return &event.CommandMonitor{Started: u.start, Succeeded: u.succeed}
}

func (u *bus) start(_ context.Context, e *event.CommandStartedEvent) {
	query, update := e.Command.Lookup("query"), e.Command.Lookup("update")
	if e.CommandName == "update" {
		query, update = e.Command.Lookup("updates", "0", "q"), e.Command.Lookup("updates", "0", "u")
	}
	filter, ok := query.DocumentOK()
	change, isDocument := update.DocumentOK()
	if !ok || !isDocument || !isInteresting(change) {
		return
	}
	key, _ := filter.Lookup(fieldKey).StringValueOK()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.started[e.RequestID] = busChange{e.DatabaseName, key}
}

// isInteresting does what the pipeline of a change stream does at a server.
func isInteresting(update bson.Raw) bool {
	if _, err := update.LookupErr("$set", fieldToken); err == nil {
		return true
	}
	lease, ok := update.Lookup("$set", fieldLease).AsInt64OK()
	return ok && lease == 0
}

func (u *bus) succeed(_ context.Context, e *event.CommandSucceededEvent) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change, ok := u.started[e.RequestID]
	delete(u.started, e.RequestID)
	n, counted := e.Reply.Lookup("n").AsInt64OK()
	_, found := e.Reply.Lookup("value").DocumentOK()
	if !ok || counted && n == 0 || !counted && !found {
		return
	}
	for s, db := range u.streams {
		if db == change.db {
			s.events <- change.key
		}
	}
}

func (s *busStream) next(ctx context.Context) (key string, changed bool, err error) {
	select {
	case key = <-s.events:
		return key, true, nil
	case err := <-s.broken:
		return "", false, err
	case <-time.After(quietTime):
		return "", false, nil
	case <-ctx.Done():
		return "", false, ctx.Err()
	}
}

func (s *busStream) close(context.Context) {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	delete(s.bus.streams, s)
}

// quietTime is how long a stream waits for an event, as a server does.
const quietTime = 20 * time.Millisecond

var errBroken = errors.New("broken by the test")
