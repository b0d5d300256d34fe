package raftleader

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader/internal/wire"
)

const (
	defaultElectionTimeout = time.Second
	minElectionTimeout     = 50 * time.Millisecond
	maxElectionTimeout     = time.Minute
	// aloneTimeout is the election timeout of a cluster of one, which waits for nobody's vote.
	aloneTimeout = 20 * time.Millisecond

	minTTL = 100 * time.Millisecond
	maxTTL = 10 * 365 * 24 * time.Hour
)

// Config says who takes part and where. Addr is required, and Peers unless the node is the only one.
type Config struct {
	// Addr is the host and port on which the node listens, for the others and for nobody else: "10.0.0.1:7000", or
	// ":7000" together with Advertise.
	Addr string

	// Advertise is the host and port at which the others reach the node. "" means Addr.
	Advertise string

	// Peers are the addresses of all nodes, as each of them advertises its own, this node included. No other can join.
	// None means that the node is alone. See Membership in the package comment for how to change it.
	Peers []string

	// Dir is a folder for the node's log and snapshots, which no other node uses. It is made if it is missing. "" keeps
	// them in memory.
	Dir string

	// TLS secures what the nodes say to each other. It is the configuration of both sides: the node shows the same
	// certificate whether it connects or is connected to. Clients have to show one that ClientCAs, or else RootCAs,
	// have signed, one of which is required unless the configuration verifies on its own; the certificate of a server
	// has to be for the host of its address, or for ServerName. Nil means no TLS: whoever reaches the port can then take
	// part.
	TLS *tls.Config

	// Logger gets what the raft library logs, at the library's levels. Nil means none of it.
	Logger *slog.Logger

	// ElectionTimeout is for how long the raft leader may be silent before the others elect another one. All nodes
	// should have the same. 0 means 1 s; it is between 50 ms and a minute. A cluster of one does not wait.
	ElectionTimeout time.Duration

	hooks hooks
}

// hooks are for the tests.
type hooks struct {
	dial     wire.DialFunc
	listener net.Listener // instead of one on Addr
	snapshot snapshotPolicy
	unsynced bool // does not wait for the disk, which matters only to a machine that loses its power
}

// snapshotPolicy says when the log is cut.
type snapshotPolicy struct {
	every     time.Duration // how often the length of the log is looked at, up to twice as long
	threshold uint64        // how many entries since the last snapshot make a new one worth it
	trailing  uint64        // how many entries are left behind a snapshot, for nodes that are not far behind
}

var defaultPolicy = snapshotPolicy{every: 5 * time.Second, threshold: 4096, trailing: 4096}

// complete fills in the defaults of a node that listens on the given address, or says what is wrong, by an error of kind
// [backend.Misconfigured].
func (c *Config) complete(listens net.Addr) error {
	if c.Advertise == "" {
		c.Advertise = c.Addr
		if _, port, _ := net.SplitHostPort(c.Addr); port == "0" {
			c.Advertise = listens.String()
		}
	}
	c.Peers = slices.Clone(c.Peers)
	if len(c.Peers) == 0 {
		c.Peers = []string{c.Advertise}
	}
	slices.Sort(c.Peers)
	err := errors.Join(c.checkAddresses(), c.checkTimes(), c.checkTLS())
	if err != nil {
		return backend.WithKind(err, backend.Misconfigured)
	}
	switch {
	case len(c.Peers) == 1:
		c.ElectionTimeout = aloneTimeout
	case c.ElectionTimeout == 0:
		c.ElectionTimeout = defaultElectionTimeout
	}
	if c.hooks.snapshot == (snapshotPolicy{}) {
		c.hooks.snapshot = defaultPolicy
	}
	c.TLS = mutual(c.TLS)
	return nil
}

func (c *Config) checkAddresses() error {
	var errs []error
	for _, address := range append([]string{c.Advertise}, c.Peers...) {
		host, port, err := net.SplitHostPort(address)
		ip := net.ParseIP(host)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%q is no host and port: %w", address, err))
		case host == "" || ip != nil && ip.IsUnspecified():
			errs = append(errs, fmt.Errorf("nobody can connect to %q: Advertise has to name a host", address))
		case port == "0" || port == "":
			errs = append(errs, fmt.Errorf("nobody can connect to %q: it has to name a port", address))
		}
	}
	if len(slices.Compact(slices.Clone(c.Peers))) < len(c.Peers) {
		errs = append(errs, fmt.Errorf("an address is twice in Peers: %q", c.Peers))
	}
	if !slices.Contains(c.Peers, c.Advertise) {
		errs = append(errs, fmt.Errorf("this node's own address, %q, is missing in Peers: %q", c.Advertise, c.Peers))
	}
	return errors.Join(errs...)
}

func (c *Config) checkTimes() error {
	t := c.ElectionTimeout
	if t != 0 && (t < minElectionTimeout || t > maxElectionTimeout) {
		return fmt.Errorf("ElectionTimeout %v is not between %v and %v", t, minElectionTimeout, maxElectionTimeout)
	}
	return nil
}

func (c *Config) checkTLS() error {
	switch t := c.TLS; {
	case t == nil:
		return nil
	case len(t.Certificates) == 0 && t.GetCertificate == nil:
		return errors.New("TLS has no certificate")
	case len(t.Certificates) == 0 && t.GetClientCertificate == nil:
		return errors.New("TLS has no certificate for the client's side: set Certificates or GetClientCertificate")
	case t.GetConfigForClient != nil:
		return errors.New("TLS has a GetConfigForClient, which might let in who shows no certificate")
	case t.ClientCAs == nil && t.RootCAs == nil && t.VerifyPeerCertificate == nil && t.VerifyConnection == nil:
		return errors.New("TLS would let in whoever has a certificate of any public authority: set ClientCAs or RootCAs")
	}
	return nil
}

// mutual returns a configuration under which both sides show a certificate.
func mutual(t *tls.Config) *tls.Config {
	if t == nil {
		return nil
	}
	t = t.Clone()
	t.ClientAuth = tls.RequireAndVerifyClientCert
	if t.ClientCAs == nil {
		t.ClientCAs = t.RootCAs
	}
	t.MinVersion = max(t.MinVersion, tls.VersionTLS12)
	return t
}
