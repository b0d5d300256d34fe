package pgleader

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// connectTimeout bounds the opening of a connection, so that another try begins before a lease is over.
	connectTimeout = 5 * time.Second
	// lockTimeout is how long a statement on an owned connection waits for a lock, and others for their turn.
	lockTimeout = "10ms"
)

// keeping configures a pool of one connection for renewals and releases.
func keeping(user *pgxpool.Pool) *pgxpool.Config {
	c := owned(user, "keep")
	after := c.AfterConnect
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if after != nil {
			if err := after(ctx, conn); err != nil {
				return err
			}
		}
		_, err := conn.Exec(ctx, "SET lock_timeout = '"+lockTimeout+"'")
		return err
	}
	return c
}

// listening configures a connection that listens.
func listening(user *pgxpool.Pool) *pgxpool.Config {
	c := owned(user, "listen")
	c.ConnConfig.OnNotification = nil // pgx keeps them for whoever asks
	// The wait for a notification is interrupted to use the connection for something else. No server needs to know.
	c.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
	}
	return c
}

// owned configures a pool of one connection, which is made as those of the user's pool are.
func owned(user *pgxpool.Pool, purpose string) *pgxpool.Config {
	c := user.Config()
	c.MaxConns, c.MinConns, c.MinIdleConns = 1, 0, 0
	// A statement on a connection that has ended is repeated on another, which is cheaper than asking first.
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	if d := c.ConnConfig.ConnectTimeout; d <= 0 || d > connectTimeout {
		c.ConnConfig.ConnectTimeout = connectTimeout
	}
	name := c.ConnConfig.RuntimeParams["application_name"] + " leader-" + purpose
	c.ConnConfig.RuntimeParams["application_name"] = strings.TrimSpace(name)
	return c
}

// connect opens a connection that belongs to nobody else.
func connect(ctx context.Context, c *pgxpool.Config) (*pgx.Conn, error) {
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Hijack(), nil
}
