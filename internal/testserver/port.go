package testserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	host = "127.0.0.1"

	// Ports below the range from which systems choose the local ports of clients. Above, a client that dials a dead
	// server again and again is sooner or later given the server's own port, is connected to itself, and keeps the
	// server from coming back.
	firstPort = 15000
	lastPort  = 32000

	portTries   = 100
	launchTries = 5
)

// freePort finds a loopback port that nobody listens on at the moment.
func freePort(ctx context.Context) (int, error) {
	var err error
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort)
		var l net.Listener
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", address(port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}

func address(port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// launch starts a server on a free port. Between the choice of a port and its use another process may take it, so a
// server that ends at once is given another one. setup makes the process for a port.
func launch(ctx context.Context, setup func(port int) (*process, error)) (*process, string, error) {
	var err error
	for range launchTries {
		var port int
		if port, err = freePort(ctx); err != nil {
			return nil, "", err
		}
		var p *process
		if p, err = setup(port); err != nil {
			return nil, "", err
		}
		if err = p.start(ctx); err == nil {
			return p, address(port), nil
		}
		if !errors.Is(err, errEnded) {
			return nil, "", err
		}
	}
	return nil, "", err
}
