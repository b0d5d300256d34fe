package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend/consulleader"
)

// consulRights are those on keys with a prefix, "leader/" if it is empty.
func consulRights(prefix string) string {
	return fmt.Sprintf(`key_prefix %q { policy = "write" }, session_prefix "" { policy = "write" } and `+
		`agent_prefix "" { policy = "read" }`, cmp.Or(prefix, "leader/"))
}

// openConsul opens an agent; the password is the token. What the URL leaves open is as consul's own environment says.
func openConsul(_ context.Context, l *Location, _ Options) (*Store, error) {
	options := &consulleader.Options{Prefix: l.Own("prefix")}
	secure, err := tlsOf(l)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(l.Done(), l.noPath()); err != nil {
		return nil, err
	}
	if l.User != "" {
		l.User = hidden // it may be the token
		return nil, errors.New("consul has no users: write a token as consul://:token@host")
	}
	if len(l.Hosts) > 1 {
		return nil, errors.New("consul takes one agent")
	}
	config := api.DefaultConfig()
	if len(l.Hosts) > 0 {
		config.Address = l.addresses("8500")[0]
	}
	config.Token = cmp.Or(l.Password, config.Token)
	if secure != nil {
		config.Scheme = "https"
		config.Transport.TLSClientConfig = secure
		config.HttpClient = &http.Client{Transport: config.Transport}
	}
	client, err := api.NewClient(config)
	if err != nil {
		return nil, err
	}
	b := consulleader.New(client, options)
	s := &Store{Driver: b, Rights: consulRights(options.Prefix)}
	s.closes(b.Close)
	return s, nil
}
