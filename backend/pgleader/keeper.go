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
	own    *ownPool // nil until it is needed
	closed bool

	closing sync.WaitGroup
}

// ownPool is a pool of one connection.
type ownPool struct {
	*pgxpool.Pool

	inUse  context.Context //nolint:containedctx // it ends for whoever waits, however long each would
	giveUp context.CancelFunc
}

func newKeeper(user *pgxpool.Pool) *keeper { return &keeper{user: user} }

// run does something on a connection. It does it twice if it has to, so it must be the same to do it once or twice: a
// connection may have ended since it was used last, and a row may be locked.
func (k *keeper) run(ctx context.Context, do func(on client) error) error {
	ended, err := k.try(ctx, k.acquire, do)
	switch {
	case err == nil:
		return nil
	case isLocked(err):
		// The own connection does not wait for a lock, with all other leases behind it.
		_, err = k.try(ctx, k.usersConn, do)
	case ended && ctx.Err() == nil:
		_, err = k.try(ctx, k.acquire, do)
	}
	return err
}

// acquiring takes a connection, and says from which pool if it is the own one.
type acquiring func(ctx context.Context) (*pgxpool.Conn, *ownPool, error)

// try does something on a connection and reports whether that has ended with it.
func (k *keeper) try(ctx context.Context, acquire acquiring, do func(on client) error) (ended bool, err error) {
	conn, own, err := acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	err = do(conn)
	ended = conn.Conn().IsClosed()
	if ended && own != nil && ctx.Err() != nil {
		k.discard(own)
	}
	return ended, err
}

// acquire takes the own connection if it is free, else one of the user's that is, else whichever comes first.
func (k *keeper) acquire(ctx context.Context) (*pgxpool.Conn, *ownPool, error) {
	own, err := k.pool(ctx)
	if err != nil {
		return nil, nil, err
	}
	switch stat := own.Stat(); {
	case stat.IdleConns() > 0:
		return k.ownConn(ctx)
	case stat.TotalConns() == 0 || k.user.Stat().IdleConns() == 0:
		return k.first(ctx)
	}
	return k.usersConn(ctx)
}

func (k *keeper) usersConn(ctx context.Context) (*pgxpool.Conn, *ownPool, error) {
	conn, err := k.user.Acquire(ctx)
	return conn, nil, err
}

// ownConn takes the own connection, or its successor if another call gives it up meanwhile.
func (k *keeper) ownConn(ctx context.Context) (*pgxpool.Conn, *ownPool, error) {
	for {
		own, err := k.pool(ctx)
		if err != nil {
			return nil, nil, err
		}
		conn, err := own.acquire(ctx)
		if err == nil || ctx.Err() != nil || own.inUse.Err() == nil {
			return conn, own, err
		}
	}
}

func (o *ownPool) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.inUse, cancel)() //nolint:contextcheck // both contexts end the wait
	return o.Acquire(ctx)
}

// acquired is what an acquiring answers.
type acquired struct {
	conn *pgxpool.Conn
	own  *ownPool
	err  error
}

// first asks both pools. A connection that one of them opens meanwhile is there for the next call.
func (k *keeper) first(ctx context.Context) (*pgxpool.Conn, *ownPool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan acquired, 2)
	for _, acquire := range []acquiring{k.ownConn, k.usersConn} {
		go func() {
			conn, own, err := acquire(ctx)
			answers <- acquired{conn, own, err}
		}()
	}
	first := <-answers
	if first.err == nil {
		cancel()
		if second := <-answers; second.err == nil {
			second.conn.Release()
		}
		return first.conn, first.own, nil
	}
	second := <-answers
	switch {
	case second.err == nil:
		return second.conn, second.own, nil
	case ctx.Err() != nil:
		return nil, nil, first.err // the second says no more than that
	}
	return nil, nil, errors.Join(first.err, second.err)
}

// pool returns the pool of the own connection.
func (k *keeper) pool(ctx context.Context) (*ownPool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, errClosed
	}
	if k.own == nil {
		pool, err := pgxpool.NewWithConfig(ctx, keeping(k.user))
		if err != nil {
			return nil, err
		}
		inUse, giveUp := context.WithCancel(context.WithoutCancel(ctx))
		k.own = &ownPool{pool, inUse, giveUp}
	}
	return k.own, nil
}

// discard makes room for another connection: a pool lets one that does not answer have its place for 15 s more.
func (k *keeper) discard(own *ownPool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.own == own {
		k.drop()
	}
}

// drop closes the own pool. The mutex is held.
func (k *keeper) drop() {
	k.own.giveUp() // before those who wait are told that it is closed
	k.closing.Go(k.own.Close)
	k.own = nil
}

// close returns when the connections are closed, or after a moment.
func (k *keeper) close() {
	k.mu.Lock()
	k.closed = true
	if k.own != nil {
		k.drop()
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
