package store

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func parsed(t *testing.T, text string) *Location {
	t.Helper()
	l, err := Parse(text, "")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestMySQL_TheCertificateMustBeOfTheHost(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"mysql://u:p@db.internal/d?tls=true": "db.internal", "mysql://u:p@[::1]:3307/d?tls=true": "::1",
	} {
		config, err := mysqlConfig(parsed(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if config.TLS == nil || config.TLS.ServerName != want {
			t.Errorf("%s: %+v, want the name %q", text, config.TLS, want)
		}
		if config.User != "u" || config.Passwd != "p" || config.DBName != "d" {
			t.Errorf("%s: %+v", text, config)
		}
	}
}

// localhostServer is a server with TLS whose certificate is for localhost, and the file of that. It tells of each client
// that took it.
func localhostServer(t *testing.T) (port, ca string, took <-chan string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	plain, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() })
	_, port, err = net.SplitHostPort(plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	names := make(chan string, 100)
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	go func() {
		for {
			c, err := plain.Accept()
			if err != nil {
				return
			}
			if server := tls.Server(c, config); server.HandshakeContext(t.Context()) == nil {
				names <- server.ConnectionState().ServerName
			}
			_ = c.Close()
		}
	}()
	return port, ca, names
}

func TestHazelcast_TheCertificateMustBeOfTheHost(t *testing.T) {
	t.Parallel()
	port, ca, took := localhostServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		l, err := Parse("hazelcast://localhost:"+port+"?tls=true&ca="+url.QueryEscape(ca), "")
		if err == nil {
			_, err = Open(ctx, l, Options{})
		}
		done <- err
	}()
	select {
	case name := <-took:
		if name != "localhost" {
			t.Errorf("the client asks for %q", name)
		}
	case err := <-done:
		t.Errorf("no client has taken the certificate: %v", err)
	}
	cancel()
}

func TestHazelcast_TakesOneNameWithTLS(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), parsed(t, "hazelcast://one:5701,two:5701?tls=true"), Options{})
	if err == nil || !strings.Contains(err.Error(), "one host") {
		t.Errorf("two hosts: %v", err)
	}
	var secure tls.Config
	if err := nameServer(&secure, []string{"[::1]:5701", "[::1]:5702"}); err != nil || secure.ServerName != "::1" {
		t.Errorf("two ports of a host: %q, %v", secure.ServerName, err)
	}
}
