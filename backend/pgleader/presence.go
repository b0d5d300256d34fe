package pgleader

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// lookAgain is how often a watcher looks whether the one that has the presence lock is gone.
	lookAgain = time.Second
	// lookSoon is the time to the next look if nobody has it.
	lookSoon = 50 * time.Millisecond
)

// presence says who shows that acquisitions are of interest, by an exclusive lock that acquirers try to share.
type presence int

const (
	unknown presence = iota
	ours
	others // another session's
	nobody // acquirers share it right now
)

const (
	tryPresence = `SELECT CASE WHEN pg_try_advisory_lock(%[1]d) THEN 1
WHEN NOT pg_try_advisory_lock_shared(%[1]d) THEN 2
WHEN pg_advisory_unlock_shared(%[1]d) THEN 3 END`
	// Acquirers who come while this one waits are refused, so it waits for those who have the lock now and no others.
	awaitPresence = `WITH brief AS MATERIALIZED (SELECT set_config('lock_timeout', '250ms', true) AS mode)
SELECT pg_advisory_lock(%d) FROM brief WHERE mode IS NOT NULL`
)

// lasts is how long a watcher need not look again.
func (p presence) lasts() time.Duration {
	switch p {
	case ours:
		return math.MaxInt64
	case others:
		return lookAgain
	case nobody:
		return lookSoon
	case unknown:
	}
	return 0
}

// pause is the time to what is due next.
func (s *session) pause() time.Duration {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	d := min(s.feed.quiet, s.feed.sweep)
	if s.watchers > 0 {
		d = min(d, s.presence.lasts())
	}
	return d
}

// show takes or leaves the presence lock, as there are watchers or not. It reports whether it has asked the server.
func (s *session) show(ctx context.Context, conn *pgx.Conn) (asked bool, err error) {
	s.feed.mu.Lock()
	watched, next := s.watchers > 0, s.presence
	s.feed.mu.Unlock()
	switch {
	case watched && time.Since(s.looked) < next.lasts():
		return false, nil
	case watched:
		next, err = s.appear(ctx, conn)
		s.looked = time.Now()
	case next == ours:
		_, err = conn.Exec(ctx, fmt.Sprintf("SELECT pg_advisory_unlock(%d)", s.feed.presence))
		next = unknown
	default:
		s.looked = time.Time{} // the next watcher is to look at once
		return false, nil
	}
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.presence = next
	return true, err
}

// appear tries to get the lock. Acquisitions that nobody was told of until then are in the rows, so all watchers, also
// those of other processes, are told to look.
func (s *session) appear(ctx context.Context, conn *pgx.Conn) (presence, error) {
	var found presence
	if err := conn.QueryRow(ctx, fmt.Sprintf(tryPresence, s.feed.presence)).Scan(&found); err != nil {
		return unknown, err
	}
	if found == nobody {
		_, err := conn.Exec(ctx, fmt.Sprintf(awaitPresence, s.feed.presence))
		if isLocked(err) {
			return nobody, nil
		}
		if err != nil {
			return unknown, err
		}
		found = ours
	}
	if found != ours {
		return found, nil
	}
	_, err := conn.Exec(ctx, "SELECT pg_notify($1, '')", pgx.QueryExecModeExec, s.feed.channel)
	return ours, err
}
