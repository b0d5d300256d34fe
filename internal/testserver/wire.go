package testserver

import (
	"context"
	"errors"
	"net"
)

// dialWire connects; ctx's deadline holds for everything done with the connection.
func dialWire(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(end); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}
