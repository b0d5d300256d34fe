package store

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Location is where a store is, as its URL says.
//
// A URL is taken apart here, because package net/url accepts one host, and the errors of most parsers repeat passwords.
type Location struct {
	Scheme string
	User   string
	// Password is the URL's, or the one that was given beside it.
	Password string
	Hosts    []string // host or host:port
	Path     string   // unescaped, without the slash before it
	query    url.Values
	rooted   bool // a slash was before the path, and nothing before that
	bare     bool // no slashes follow the scheme
}

// errNoStore says how to name a store.
var errNoStore = errors.New(`no store: give one with --store, LEADER_STORE or the configuration file, ` +
	`as redis://localhost:6379 or sqlite:leader.db`)

// errNotEscaped does not repeat what was read as a host, as that may be a part of a password.
var errNotEscaped = errors.New("the store's URL has a host, path or option that cannot be read: " +
	"write %2F for /, %3F for ?, %40 for @ and %3A for : in a password")

// Parse takes a URL apart. password is used where the URL has none. The error does not repeat the URL.
func Parse(text, password string) (*Location, error) {
	if text == "" {
		return nil, errNoStore
	}
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok {
		return nil, errors.New("the store is not a URL, which begins as redis:// or sqlite: does")
	}
	l := &Location{Scheme: strings.ToLower(scheme), Password: password}
	rest, query, _ := strings.Cut(rest, "?")
	var err error
	if l.query, err = url.ParseQuery(query); err != nil {
		return nil, errors.New("the store's URL has a query that cannot be read")
	}
	path, ok := strings.CutPrefix(rest, "//")
	l.bare = !ok
	if ok {
		var authority string
		authority, path, l.rooted = strings.Cut(path, "/")
		l.rooted = l.rooted && authority == ""
		if err := l.setAuthority(authority); err != nil {
			return nil, err
		}
	}
	if len(l.Hosts) > 0 && strings.Contains(path, "@") || strings.Contains(strings.Join(l.options(), ""), "@") {
		return nil, errNotEscaped
	}
	if l.Path, err = url.PathUnescape(path); err != nil {
		return nil, errors.New("the store's URL has a path that cannot be read")
	}
	return l, nil
}

// setAuthority reads [user[:password]@]host[:port],….
func (l *Location) setAuthority(authority string) error {
	hosts := authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		hosts = authority[at+1:]
		user, password, given := strings.Cut(authority[:at], ":")
		var err, worse error
		l.User, err = url.PathUnescape(user)
		if given {
			l.Password, worse = url.PathUnescape(password)
		}
		if err != nil || worse != nil {
			return errors.New("the store's URL has a user or password that cannot be read: escape it with %")
		}
	}
	if hosts != "" {
		l.Hosts = strings.Split(hosts, ",")
	}
	for _, host := range l.Hosts {
		ports := strings.Count(host[strings.LastIndexByte(host, ']')+1:], ":")
		if u, err := url.Parse("//" + host); host == "" || ports > 1 || err != nil || u.Host != host {
			return errNotEscaped
		}
	}
	return nil
}

// Own takes an option of this tool's out of the query, and returns "" if it is not there.
func (l *Location) Own(name string) string {
	value := l.query.Get(name)
	l.query.Del(name)
	return value
}

// Done reports options that nobody has taken.
func (l *Location) Done() error {
	if len(l.query) == 0 {
		return nil
	}
	return fmt.Errorf("the store's URL has options that %s does not know: %s", l.Scheme, strings.Join(l.options(), ", "))
}

// options are the names of those that nobody has taken, in order.
func (l *Location) options() []string { return slices.Sorted(maps.Keys(l.query)) }

// noPath reports a path, which would be ignored.
func (l *Location) noPath() error {
	if l.Path == "" {
		return nil
	}
	return fmt.Errorf("the URL of %s has no path: what all keys begin with is ?prefix=", l.Scheme)
}

// URL is the URL for a client of the store, with the password.
func (l *Location) URL() string {
	return l.render(l.Password)
}

// String is the URL for people, in which the password, and whatever else may be a secret, is replaced.
func (l *Location) String() string {
	shown := *l
	if l.Password != "" {
		shown.Password = hidden
	}
	shown.query = url.Values{}
	for name, values := range l.query {
		shown.query[name] = values
		if isSecret(name) {
			shown.query[name] = []string{hidden}
		}
	}
	return shown.render(shown.Password)
}

// Secrets are the texts that must not be shown.
func (l *Location) Secrets() []string {
	list := []string{l.Password}
	for name, values := range l.query {
		if isSecret(name) {
			list = append(list, values...)
		}
	}
	return list
}

const hidden = "xxxxx"

// isSecret reports whether the option of a client may have a secret.
func isSecret(option string) bool {
	option = strings.ToLower(option)
	for _, part := range []string{"password", "secret", "token", "passphrase", "passfile", "authmechanismproperties"} {
		if strings.Contains(option, part) {
			return true
		}
	}
	return false
}

func (l *Location) render(password string) string {
	var b strings.Builder
	b.WriteString(l.Scheme + ":")
	if len(l.Hosts) > 0 || l.User != "" || l.Password != "" && !l.bare {
		b.WriteString("//")
		if l.User != "" || password != "" {
			user := url.User(l.User)
			if password != "" {
				user = url.UserPassword(l.User, password)
			}
			b.WriteString(user.String() + "@")
		}
		b.WriteString(strings.Join(l.Hosts, ","))
		if l.Path != "" {
			b.WriteString("/")
		}
	} else if l.rooted {
		b.WriteString("///")
	}
	b.WriteString((&url.URL{Path: l.Path}).EscapedPath())
	if len(l.query) > 0 {
		b.WriteString("?" + l.query.Encode())
	}
	return b.String()
}

// addresses are the hosts, with a port where they have none.
func (l *Location) addresses(port string) []string {
	hosts := l.Hosts
	if len(hosts) == 0 {
		hosts = []string{"localhost"}
	}
	list := make([]string, len(hosts))
	for i, host := range hosts {
		list[i] = host
		if u, err := url.Parse("//" + host); err == nil && u.Port() == "" {
			list[i] = strings.TrimSuffix(host, ":") + ":" + port
		}
	}
	return list
}
