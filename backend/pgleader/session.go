package pgleader

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// sweepEvery is how often topics that nobody uses are looked for, keepUnused how many sweeps one survives. Who waited
	// and was outrun comes back at once, and should not have to begin anew.
	sweepEvery = 10 * time.Second
	keepUnused = 2
	// quiet is how long a connection may say nothing before it is asked for a sign of life: a path that swallows packets
	// would go unnoticed for ever.
	quiet = 10 * time.Second
	// stepTimeout bounds every answer.
	stepTimeout = 5 * time.Second
)

// session is one connection that listens, and the goroutine that owns it. Its fields are guarded by the feed's mutex.
type session struct {
	feed      *feed
	cancel    context.CancelFunc
	listening chan struct{} // closed when listeners are told of changes from now on
	done      chan struct{} // closed at the end, when err is set
	err       error

	topics    map[string]*topic
	watchers  int
	presence  presence
	hurried   bool               // there is something to do beside waiting for notifications
	interrupt context.CancelFunc // ends such a wait; nil while there is none

	// Of the goroutine alone.
	spoke, swept, looked time.Time
	tables               map[uint32]bool // by OID, whether it is the feed's
}

// add lets l be told. The feed's mutex is held, as in remove.
func (s *session) add(l *listener) {
	t := s.topics[l.key]
	if t == nil {
		t = &topic{listeners: make(map[*listener]struct{})}
		s.topics[l.key] = t
	}
	t.listeners[l] = struct{}{}
	t.unused = 0
	if l.watches {
		if s.watchers++; s.watchers == 1 {
			s.hurry()
		}
	}
}

func (s *session) remove(l *listener) {
	delete(s.topics[l.key].listeners, l)
	if l.watches {
		if s.watchers--; s.watchers == 0 {
			s.hurry()
		}
	}
}

func (s *session) hurry() {
	s.hurried = true
	if s.interrupt != nil {
		s.interrupt()
	}
}

// run listens until ctx ends, the connection does, or nobody has been interested for a while, which is no error.
func (s *session) run(ctx context.Context) error {
	conn, err := s.feed.open(ctx)
	if err != nil {
		return err
	}
	defer s.feed.hangUp(ctx, conn)
	s.spoke, s.swept = time.Now(), time.Now()
	close(s.listening)
	for {
		if err := s.tend(ctx, conn); err != nil {
			return err
		}
		if s.retire() {
			return nil
		}
		if err := s.receive(ctx, conn); err != nil {
			return err
		}
	}
}

// receive waits for a notification, but not for long, and passes it on.
func (s *session) receive(ctx context.Context, conn *pgx.Conn) error {
	wait, cancel := context.WithTimeout(ctx, s.pause())
	defer cancel()
	s.arm(cancel)
	defer s.arm(nil)
	n, err := conn.WaitForNotification(wait)
	if err != nil {
		if wait.Err() == nil || ctx.Err() != nil || conn.IsClosed() {
			return err
		}
		return nil
	}
	s.spoke = time.Now()
	return s.tell(ctx, conn, n.Payload)
}

// arm lets hurry interrupt a wait.
func (s *session) arm(interrupt context.CancelFunc) {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.interrupt = interrupt
	if s.hurried && interrupt != nil {
		s.hurried = false
		interrupt()
	}
}

// tell passes a notification on. One that names no key concerns whoever watches.
func (s *session) tell(ctx context.Context, conn *pgx.Conn, payload string) error {
	n, ok := parse(payload)
	if ok {
		mine, err := s.isMine(ctx, conn, n.table)
		if err != nil || !mine {
			return err
		}
	}
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	switch t := s.topics[n.key]; {
	case ok && t != nil:
		t.tell(n)
	case payload == "":
		s.tellWatchers()
	}
	return nil
}

func (s *session) tellWatchers() {
	for _, t := range s.topics {
		for l := range t.listeners {
			if l.watches {
				l.wake()
			}
		}
	}
}

// isMine reports whether an OID is that of the feed's table, and not of one in another schema. A table that is made anew
// has another, so the server is asked about each new one.
func (s *session) isMine(ctx context.Context, conn *pgx.Conn, table uint32) (bool, error) {
	mine, known := s.tables[table]
	if known {
		return mine, nil
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	ask := "SELECT coalesce(to_regclass($1)::oid::bigint = $2, false)"
	if err := conn.QueryRow(ctx, ask, pgx.QueryExecModeExec, s.feed.table, int64(table)).Scan(&mine); err != nil {
		return false, err
	}
	s.tables[table] = mine
	return mine, nil
}

// tend does what is due beside waiting.
func (s *session) tend(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	asked, err := s.show(ctx, conn)
	if err != nil {
		return err
	}
	if !asked && time.Since(s.spoke) >= s.feed.quiet {
		if err := conn.Ping(ctx); err != nil {
			return err
		}
		asked = true
	}
	if asked {
		s.spoke = time.Now()
	}
	return nil
}

// retire forgets topics that nobody has used of late. If none is left it makes room for another session.
func (s *session) retire() bool {
	if time.Since(s.swept) < s.feed.sweep {
		return false
	}
	s.swept = time.Now()
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	for key, t := range s.topics {
		if len(t.listeners) > 0 {
			continue
		}
		if t.unused++; t.unused > keepUnused {
			delete(s.topics, key)
		}
	}
	if len(s.topics) > 0 {
		return false
	}
	s.feed.session = nil
	return true
}
