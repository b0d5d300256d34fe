package pgleader

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// closeTimeout is how long the end of a connection is waited for.
const closeTimeout = 2 * time.Second

// keeper runs the statements on which leases depend. It has a connection of its own, which an application that uses up
// the pool cannot take, and helps itself from the pool when that one is busy, which a long queue cannot block.
type keeper struct {
	user *pgxpool.Pool

	mu     sync.Mutex
	own    *pgxpool.Pool // of one connection; nil until it is needed
	closed bool

	closing sync.WaitGroup
}

func newKeeper(user *pgxpool.Pool) *keeper { return &keeper{user: user} }

// run does something on a connection. It does it twice if it has to, so it must be the same to do it once or twice: a
// connection may have ended since it was used last, and a row may be locked.
func (k *keeper) run(ctx context.Context, do func(on client) error) error {
	own, err := k.pool(ctx)
	if err != nil {
		return err
	}
	ended, err := k.try(ctx, own, do)
	switch {
	case err == nil:
		return nil
	case isLocked(err):
		// The own connection does not wait for a lock, with all other leases behind it.
		_, err = k.try(ctx, nil, do)
	case ended && ctx.Err() == nil:
		_, err = k.try(ctx, own, do)
	}
	return err
}

// try does something on the first connection that is free, of the user's if own is nil, and reports whether the connection
// has ended with it.
func (k *keeper) try(ctx context.Context, own *pgxpool.Pool, do func(on client) error) (ended bool, err error) {
	conn, from, err := k.acquire(ctx, own)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	err = do(conn)
	ended = conn.Conn().IsClosed()
	if ended && from == own && ctx.Err() != nil {
		k.discard(own)
	}
	return ended, err
}

// acquire takes the own connection if it is free, else one of the user's that is, else whichever comes first.
func (k *keeper) acquire(ctx context.Context, own *pgxpool.Pool) (*pgxpool.Conn, *pgxpool.Pool, error) {
	from := k.user
	if own != nil {
		switch stat := own.Stat(); {
		case stat.IdleConns() > 0:
			from = own
		case stat.TotalConns() == 0 || from.Stat().IdleConns() == 0:
			return k.first(ctx, own)
		}
	}
	conn, err := from.Acquire(ctx)
	return conn, from, err
}

// acquired is what a pool answers.
type acquired struct {
	conn *pgxpool.Conn
	from *pgxpool.Pool
	err  error
}

// first asks both pools. A connection that one of them opens meanwhile is there for the next call.
func (k *keeper) first(ctx context.Context, own *pgxpool.Pool) (*pgxpool.Conn, *pgxpool.Pool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan acquired, 2)
	for _, from := range []*pgxpool.Pool{own, k.user} {
		go func() {
			conn, err := from.Acquire(ctx)
			answers <- acquired{conn, from, err}
		}()
	}
	first := <-answers
	if first.err == nil {
		cancel()
		if second := <-answers; second.err == nil {
			second.conn.Release()
		}
		return first.conn, first.from, nil
	}
	second := <-answers
	switch {
	case second.err == nil:
		return second.conn, second.from, nil
	case ctx.Err() != nil:
		return nil, nil, first.err // the second says no more than that
	}
	return nil, nil, errors.Join(first.err, second.err)
}

// pool returns the pool of the own connection.
func (k *keeper) pool(ctx context.Context) (*pgxpool.Pool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, errClosed
	}
	if k.own == nil {
		own, err := pgxpool.NewWithConfig(ctx, keeping(k.user))
		if err != nil {
			return nil, err
		}
		k.own = own
	}
	return k.own, nil
}

// discard makes room for another connection: a pool lets one that does not answer have its place for 15 s more.
func (k *keeper) discard(own *pgxpool.Pool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.own == own {
		k.own = nil
		k.closing.Go(own.Close)
	}
}

// close returns when the connections are closed, or after a moment.
func (k *keeper) close() {
	k.mu.Lock()
	k.closed = true
	if k.own != nil {
		k.closing.Go(k.own.Close)
		k.own = nil
	}
	k.mu.Unlock()
	done := make(chan struct{})
	go func() {
		k.closing.Wait()
		close(done)
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C: // pgx goes on by itself, for 15 s
	}
}

// isLocked reports whether a statement has waited for a lock for too long.
func isLocked(err error) bool {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refusal.Code == "55P03"
}
