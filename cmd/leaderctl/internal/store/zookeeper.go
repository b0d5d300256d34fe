package store

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/goleader/leader/backend/zkleader"
)

const zooKeeperRights = "create, read, write and delete below the root, which setAcl grants"

// sessionLimit is what servers grant unless they are told otherwise.
const sessionLimit = 40 * time.Second

// openZooKeeper opens a session as long as the leases, as far as servers grant it.
func openZooKeeper(_ context.Context, l *Location, o Options) (*Store, error) {
	options := &zkleader.Options{SessionTimeout: min(o.Lease, sessionLimit)}
	if l.Path != "" {
		options.Root = "/" + l.Path
	}
	if l.User != "" {
		options.Auth = []zkleader.Auth{{Scheme: "digest", Credential: l.User + ":" + l.Password}}
	}
	secure, err := tlsOf(l)
	if err != nil {
		return nil, err
	}
	if err := l.Done(); err != nil {
		return nil, err
	}
	if secure != nil {
		options.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return (&tls.Dialer{Config: secure}).DialContext(ctx, network, addr)
		}
	}
	b := zkleader.New(l.addresses("2181"), options)
	s := &Store{Driver: b, Rights: zooKeeperRights}
	s.closes(b.Close)
	return s, nil
}
