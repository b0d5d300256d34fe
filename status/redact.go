package status

import (
	"maps"
	"regexp"
	"strings"
	"unicode/utf8"
)

const hidden = "…"

// secrets are the parts of texts that are not shown, with what is shown instead.
var secrets = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\b(?:[A-Z2-7]{26}|LOCAL[0-9]{21})\b`), hidden}, // a lease's token
	{regexp.MustCompile(`(://[^/\s:@]*):\S*@`), "${1}:" + hidden + "@"},
	{regexp.MustCompile(`(?i)(https?://)[^/\s:@]+@`), "${1}" + hidden + "@"},       // token@host
	{regexp.MustCompile(`([^\s:/@]+):\S*@([a-z]*\()`), "${1}:" + hidden + "@${2}"}, // user:password@tcp(host)
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9+/=._~-]{6,}`), "${1} " + hidden},
	{regexp.MustCompile(`(?i)\b(cookie:\s*)[^\s=;]+=[^\r\n]+`), "${1}" + hidden},
	{regexp.MustCompile(`(?i)(` + secretWord + `[a-z0-9_-]*["']?\s*[=:]\s*)` + afterName), "${1}" + hidden},
	{
		regexp.MustCompile(`(?i)((?:(?:\b|_)` + shortWord + `["']?\s*=|["']` + shortWord + `["']\s*:)\s*)` + afterName),
		"${1}" + hidden,
	},
}

// afterName is what follows the name of a secret.
const afterName = `("[^"]*"?|'[^']*'?|[^\s,;&)}\]]+)`

// secretWord is what names of secrets contain.
const secretWord = `(?:passw|passphrase|pwd|secret|token|credential|authorization|` +
	`api[_-]?key|access[_-]?key|private[_-]?key)`

// shortWord is what names of secrets are, or end with. Other words contain it, and sentences have it before a colon.
const shortWord = `(?:pass|auth|cookie|[a-z0-9_-]*signature)`

var secretKey = regexp.MustCompile(`(?i)` + secretWord + `|cookie|(?:^|[_.-])` + shortWord + `$`)

// redact returns a text without what looks like a secret, and in valid UTF-8.
func redact(text string) string {
	if text == "" {
		return ""
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	for _, s := range secrets {
		text = s.pattern.ReplaceAllString(text, s.instead)
	}
	return text
}

// redactAll is redact for metadata, of which also those under a key that says so are hidden.
func redactAll(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	m = maps.Clone(m)
	for key, value := range m {
		if secretKey.MatchString(key) {
			m[key] = hidden
		} else {
			m[key] = redact(value)
		}
	}
	return m
}
