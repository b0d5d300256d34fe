package raftleader_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pool        *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{key: newKey(t), pool: x509.NewCertPool()}
	template := template(1)
	template.IsCA, template.KeyUsage, template.BasicConstraintsValid = true, x509.KeyUsageCertSign, true
	a.certificate = a.sign(t, template, template, &a.key.PublicKey)
	a.pool.AddCert(a.certificate)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func template(serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: "node"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
}

func (a *authority) sign(t testing.TB, c, parent *x509.Certificate, key *ecdsa.PublicKey) *x509.Certificate {
	t.Helper()
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, key, a.key)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// config is that of a node with a certificate of the authority.
func (a *authority) config(t testing.TB) *tls.Config {
	t.Helper()
	key := newKey(t)
	c := a.sign(t, template(2), a.certificate, &key.PublicKey)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{c.Raw}, PrivateKey: key}},
		RootCAs:      a.pool,
		MinVersion:   tls.VersionTLS12,
	}
}

func secured(t testing.TB, a *authority) change {
	t.Helper()
	return func(_ int, c *raftleader.Config) { c.TLS = a.config(t) }
}

func TestConfig_TLS_SecuresWhatNodesSay(t *testing.T) {
	c := startNodes(t, 3, secured(t, newAuthority(t)))
	l := acquire(t, c.list[c.follower()], "job", "a")
	c.kill(c.leader())
	renewed(t, l)
}

func TestConfig_TLS_RefusesWhoeverShowsNoCertificateOfTheAuthority(t *testing.T) {
	ours := newAuthority(t)
	c := startNodes(t, 3, secured(t, ours))
	address := c.configs[0].Addr
	for name, client := range map[string]*tls.Config{
		"plain":          nil,
		"no certificate": {RootCAs: ours.pool, MinVersion: tls.VersionTLS12},
		"of another authority": {
			RootCAs: ours.pool, Certificates: newAuthority(t).config(t).Certificates, MinVersion: tls.VersionTLS12,
		},
	} {
		if greets(t, address, client) {
			t.Errorf("a client with %s is greeted", name)
		}
	}
	if !greets(t, address, ours.config(t)) {
		t.Error("a node's own certificate is refused")
	}
}

// greets reports whether a node answers the first bytes of a stream.
func greets(t testing.TB, address string, c *tls.Config) bool {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if c != nil {
		c = c.Clone()
		c.ServerName = "127.0.0.1"
		conn = tls.Client(conn, c)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte{'H', 1, 0}); err != nil {
		return false
	}
	var verdict [1]byte
	_, err = io.ReadFull(conn, verdict[:])
	return err == nil && verdict[0] == 0
}

func TestConfig_TLS_ANodeOfAnotherAuthorityDoesNotJoin(t *testing.T) {
	c := newNodes(t, 3, secured(t, newAuthority(t)))
	c.configs[2].TLS = newAuthority(t).config(t)
	for i := range c.list {
		c.start(i)
	}
	for i, b := range c.list {
		ctx, cancel := context.WithTimeout(t.Context(), 3*election)
		_, err := b.TryAcquire(ctx, request("job", "a"))
		cancel()
		if backend.KindOf(err) != backend.Unavailable {
			t.Errorf("node %d: %v, want Unavailable", i, err)
		}
	}
}
