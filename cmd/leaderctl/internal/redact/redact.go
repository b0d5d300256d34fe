// Package redact keeps secrets out of what the tool prints, whoever wrote the text.
package redact

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
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
		for _, form := range forms(text) {
			if len(form) < shortest {
				s.known[":"+form+"@"] = ":" + Hidden + "@"
			} else {
				s.known[form] = Hidden
			}
		}
	}
	s.replacer = newReplacer(s.known)
}

// forms are how a text may look: within a URL, in quotes, in JSON, and in quotes in either.
func forms(text string) []string {
	quoted := inQuotes(text)
	return []string{
		text, strings.TrimPrefix(url.UserPassword("", text).String(), ":"), url.QueryEscape(text), url.PathEscape(text),
		quoted, inQuotes(quoted), inJSON(text), inJSON(quoted),
	}
}

func inQuotes(text string) string {
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

func inJSON(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		return text
	}
	return string(quoted[1 : len(quoted)-1])
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

// inURL finds the passwords of URLs, and those that should have been escaped.
var inURL = []*regexp.Regexp{
	regexp.MustCompile(`://[^/?#\s:]*:([^/?#\s]+)@`), regexp.MustCompile(`://[^/?#\s:]*:(\S+)@`),
}

// AddFrom makes the passwords of all URLs in a text secret.
func (s *Secrets) AddFrom(text string) {
	for _, expression := range inURL {
		for _, match := range expression.FindAllStringSubmatch(text, -1) {
			s.Add(match[1])
			if password, err := url.PathUnescape(match[1]); err == nil {
				s.Add(password)
			}
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
