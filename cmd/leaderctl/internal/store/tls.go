package store

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// tlsOf takes the options tls, ca, cert and key, whose values are files, out of the query. It returns nil without any.
func tlsOf(l *Location) (*tls.Config, error) {
	on, ca, cert, key := l.Own("tls"), l.Own("ca"), l.Own("cert"), l.Own("key")
	switch {
	case on != "" && on != "true" && on != "false":
		return nil, errors.New("tls is neither true nor false")
	case on == "false" || on+ca+cert+key == "":
		return nil, nil //nolint:nilnil // no TLS is no error
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("read the certificates of ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("no certificate in %s", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("read cert and key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
