package store

import (
	"context"
	"crypto/tls"
	"errors"
	"net/url"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/logger"
	"github.com/hazelcast/hazelcast-go-client/types"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/hazelcastleader"
)

const hazelcastRights = "the permissions create, read, put, remove and listen for the map, and create and use for the " +
	"Flake id generator"

// connectTime is how long the first connection may take.
const connectTime = 5 * time.Second

// openHazelcast opens a cluster, which is named by the path, else "dev". Its client connects at once.
func openHazelcast(ctx context.Context, l *Location, _ Options) (*Store, error) {
	options := &hazelcastleader.Options{Map: l.Own("map")}
	secure, err := tlsOf(l)
	if err != nil {
		return nil, err
	}
	if err := l.Done(); err != nil {
		return nil, err
	}
	c := hazelcast.NewConfig()
	c.Logger.Level = logger.OffLevel
	c.Cluster.Network.SetAddresses(l.addresses("5701")...)
	c.Cluster.ConnectionStrategy.Timeout = types.Duration(connectTime)
	if l.Path != "" {
		c.Cluster.Name = l.Path
	}
	if l.User != "" {
		c.Cluster.Security.Credentials.Username, c.Cluster.Security.Credentials.Password = l.User, l.Password
	}
	if secure != nil {
		if err := nameServer(secure, l.addresses("5701")); err != nil {
			return nil, err
		}
		c.Cluster.Network.SSL.Enabled = true
		c.Cluster.Network.SSL.SetTLSConfig(secure)
	}
	hazelcastleader.Configure(&c)
	client, err := hazelcast.StartNewClientWithConfig(ctx, c)
	if err != nil {
		return nil, backend.WithKind(err, backend.Unavailable)
	}
	b := hazelcastleader.New(client, options)
	s := &Store{Driver: b, Rights: hazelcastRights}
	s.closes(func() error { return client.Shutdown(context.WithoutCancel(ctx)) })
	s.closes(b.Close)
	return s, nil
}

// nameServer says which name the certificates must have. The client has one for all members, whatever their addresses.
func nameServer(secure *tls.Config, addresses []string) error {
	for _, address := range addresses {
		u, err := url.Parse("//" + address)
		if err != nil {
			return err
		}
		if secure.ServerName != "" && secure.ServerName != u.Hostname() {
			return errors.New("hazelcast with TLS takes one host, whose name the certificates of all members must have")
		}
		secure.ServerName = u.Hostname()
	}
	return nil
}
