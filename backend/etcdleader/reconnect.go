package etcdleader

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// QuickReconnect makes a client whose connection was lost try to connect once a second at least. It belongs into
// clientv3.Config.DialOptions. By itself the client pauses for 1 s, 1.6 s, 2.6 s and so on, up to two minutes, so that a
// lease of less than 10 s may be lost although the server was away for a moment only.
func QuickReconnect() grpc.DialOption {
	pauses := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}
	return grpc.WithConnectParams(grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: 5 * time.Second})
}
