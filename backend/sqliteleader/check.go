package sqliteleader

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/goleader/leader/backend"
)

// checked is a connector that lets SQLite look over the tables before the first use: SQLite itself notices damage only
// where it comes across it, and may have written beside it by then. Other tables of the file are not looked at.
type checked struct {
	driver.Connector

	tables []string
	sound  atomic.Bool
}

// Connect implements [driver.Connector].
func (c *checked) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil || c.sound.Load() {
		return conn, err
	}
	if err := c.check(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c.sound.Store(true)
	return conn, nil
}

func (c *checked) check(ctx context.Context, conn driver.Conn) error {
	queryer, ok := conn.(driver.QueryerContext)
	if !ok {
		return errors.New("the connection takes no queries")
	}
	for _, table := range c.tables {
		if err := quickCheck(ctx, queryer, table); err != nil {
			return err
		}
	}
	return nil
}

func quickCheck(ctx context.Context, queryer driver.QueryerContext, table string) error {
	rows, err := queryer.QueryContext(ctx, "PRAGMA quick_check('"+table+"')", nil)
	if err != nil {
		if strings.Contains(err.Error(), "no such table") {
			return nil
		}
		return err
	}
	verdict := make([]driver.Value, 1)
	if err := errors.Join(rows.Next(verdict), rows.Close()); err != nil {
		return err
	}
	if verdict[0] != "ok" {
		err := fmt.Errorf("table %s is damaged: %q", table, verdict[0])
		return backend.WithKind(err, backend.Misconfigured)
	}
	return nil
}
