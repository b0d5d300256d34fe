package store

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

// SetLogger gives what clients have to say to a logger, as warnings. Else some write to the standard error. It is to be
// called before a store is opened.
func SetLogger(l *slog.Logger) {
	redis.SetLogger(clientLog{l, "redis"})
	_ = mysql.SetLogger(clientLog{l, "mysql"}) // it refuses nil alone
}

// clientLog is what clients take for a log.
type clientLog struct {
	to     *slog.Logger
	client string
}

// Printf is for the client of Redis.
func (c clientLog) Printf(ctx context.Context, format string, values ...any) {
	c.to.WarnContext(ctx, "the client says: "+fmt.Sprintf(format, values...), "client", c.client)
}

// Print is for the client of MySQL.
func (c clientLog) Print(values ...any) {
	c.to.Warn("the client says: "+fmt.Sprint(values...), "client", c.client)
}
