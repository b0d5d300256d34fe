package testserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// respConn speaks as much of the Redis protocol as it takes to set a server up, because this package uses no client.
type respConn struct {
	conn net.Conn
	in   *bufio.Reader
}

// dialRESP connects; ctx's deadline holds for everything done with the connection.
func dialRESP(ctx context.Context, addr string) (*respConn, error) {
	conn, err := dialWire(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &respConn{conn, bufio.NewReader(conn)}, nil
}

func (c *respConn) Close() error { return c.conn.Close() }

// do sends a command and returns its reply, which must not be an array.
func (c *respConn) do(args ...string) (string, error) {
	var cmd strings.Builder
	fmt.Fprintf(&cmd, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&cmd, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c.conn, cmd.String()); err != nil {
		return "", err
	}
	line, err := c.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return text, nil
	case '-':
		return "", errors.New(text)
	case '$':
		return c.bulk(text)
	default:
		return "", fmt.Errorf("unexpected reply %q", line)
	}
}

func (c *respConn) bulk(length string) (string, error) {
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 {
		return "", err // A negative length is a missing value.
	}
	body := make([]byte, n+len("\r\n"))
	_, err = io.ReadFull(c.in, body)
	return string(body[:n]), err
}
