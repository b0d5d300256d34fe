// Package redact keeps secrets out of what the tool prints, whoever wrote the text.
package redact

import (
	"cmp"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Hidden stands in the place of a secret.
const Hidden = "xxxxx"

// shortest is the length from which a secret is replaced wherever it stands. A shorter one would make holes in ordinary
// words, and is replaced where it looks like a password of a URL.
const shortest = 4

// Secrets are texts that must not be printed. The zero value has none. All methods may be called concurrently.
type Secrets struct {
	mu       sync.Mutex
	known    map[string]string // what stands in the place of each
	replacer *strings.Replacer
}

// Add makes texts secret, as they are and as they look within a URL.
func (s *Secrets) Add(texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = make(map[string]string)
	}
	for _, text := range texts {
		if text == "" {
			continue
		}
		inUser := strings.TrimPrefix(url.UserPassword("", text).String(), ":")
		for _, form := range []string{text, inUser, url.QueryEscape(text), url.PathEscape(text)} {
			if len(form) < shortest {
				s.known[":"+form+"@"] = ":" + Hidden + "@"
			} else {
				s.known[form] = Hidden
			}
		}
	}
	s.replacer = newReplacer(s.known)
}

// newReplacer tries the longest first, as one may be a part of another.
func newReplacer(known map[string]string) *strings.Replacer {
	forms := slices.SortedFunc(maps.Keys(known), func(a, b string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, known[form])
	}
	return strings.NewReplacer(pairs...)
}

// inURL finds the passwords of URLs.
var inURL = regexp.MustCompile(`://[^/?#\s:]*:([^/?#\s]+)@`)

// AddFrom makes the passwords of all URLs in a text secret.
func (s *Secrets) AddFrom(text string) {
	for _, match := range inURL.FindAllStringSubmatch(text, -1) {
		s.Add(match[1])
		if password, err := url.PathUnescape(match[1]); err == nil {
			s.Add(password)
		}
	}
}

// Text is text without the secrets.
func (s *Secrets) Text(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// Writer writes to w what each write has, without the secrets. A secret that is spread over two writes is not found.
func (s *Secrets) Writer(w io.Writer) io.Writer { return &writer{s, w} }

type writer struct {
	secrets *Secrets
	to      io.Writer
}

func (w *writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, w.secrets.Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
