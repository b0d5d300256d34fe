package consulleader

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/goleader/leader/backend"
)

// isPlain reports whether a character stands for itself in a key wherever it is.
func isPlain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

// recordFolder is where records are, below the prefix. No lease is there, because a dot at the beginning of a segment of
// its key is escaped.
const recordFolder = ".records/"

// storeKey maps the key of a lease to the key in Consul.
func (b *Backend) storeKey(key string) string { return b.options.Prefix + escape(key) }

// engineKey undoes storeKey. ok is false for what storeKey does not make.
func (b *Backend) engineKey(stored string) (key string, ok bool) {
	rest, ok := strings.CutPrefix(stored, b.options.Prefix)
	if !ok {
		return "", false
	}
	return unescape(rest)
}

// storePrefix is the longest text that all keys in Consul begin with whose keys of the engine begin with prefix.
func (b *Backend) storePrefix(prefix string) string {
	end := strings.IndexFunc(prefix, func(r rune) bool { return !isPlain(r) })
	if end < 0 {
		end = len(prefix)
	}
	return b.options.Prefix + prefix[:end]
}

// recordKey maps the key of a record, name!kind/id, to the key in Consul.
func (b *Backend) recordKey(key string) (string, error) {
	if _, rest, ok := strings.Cut(key, "!"); !ok || strings.IndexByte(rest, '/') < 0 || strings.HasSuffix(rest, "/") {
		return "", notARecord(key)
	}
	return b.options.Prefix + recordFolder + escape(key), nil
}

// setPrefix maps the prefix of a set, name!kind/, to what the keys of its records begin with.
func (b *Backend) setPrefix(prefix string) (string, error) {
	if _, rest, ok := strings.Cut(prefix, "!"); !ok || strings.IndexByte(rest, '/') != len(rest)-1 {
		return "", notARecord(prefix)
	}
	const anyID = "x"
	return strings.TrimSuffix(b.options.Prefix+recordFolder+escape(prefix+anyID), anyID), nil
}

// recordOf undoes recordKey. ok is false for what recordKey does not make.
func (b *Backend) recordOf(stored string) (key string, ok bool) {
	rest, ok := strings.CutPrefix(stored, b.options.Prefix+recordFolder)
	if !ok {
		return "", false
	}
	return unescape(rest)
}

func notARecord(key string) error {
	return backend.WithKind(fmt.Errorf("%q is not built as name!kind/id", key), backend.Misconfigured)
}

// escape maps a key of the engine to one that arrives. It is injective, and plain names stay readable. A key in Consul
// is part of a URL's path, which servers and proxies clean of empty and dotted segments, and refuse with unprintable
// characters, so all that is not certain to arrive is written as % and two digits.
func escape(key string) string {
	const digits = "0123456789ABCDEF"
	var s strings.Builder
	s.Grow(len(key))
	for i := range len(key) {
		if c := key[i]; literal(key, i) {
			s.WriteByte(c)
		} else {
			s.WriteByte('%')
			s.WriteByte(digits[c>>4])
			s.WriteByte(digits[c&0xf])
		}
	}
	return s.String()
}

// literal reports whether the byte at i of a key stands for itself.
func literal(key string, i int) bool {
	inner := i > 0 && key[i-1] != '/' // of a segment
	switch c := key[i]; c {
	case '/':
		return inner && i < len(key)-1
	case '.':
		return inner
	case '#', '!', ':', '@', '=', ',', '+':
		return true
	default:
		return isPlain(rune(c))
	}
}

// unescape undoes escape. ok is false for what escape does not make.
func unescape(escaped string) (key string, ok bool) {
	var s strings.Builder
	for i := 0; i < len(escaped); i++ {
		if escaped[i] != '%' {
			s.WriteByte(escaped[i])
			continue
		}
		const digits = 2
		if i+digits >= len(escaped) {
			return "", false
		}
		c, err := hex.DecodeString(escaped[i+1 : i+1+digits])
		if err != nil {
			return "", false
		}
		s.Write(c)
		i += digits
	}
	key = s.String()
	return key, key != "" && escape(key) == escaped
}
