package zkleader

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// unwritable reports whether a rune may not be part of a node's name: ZooKeeper allows neither control characters nor
// what is private to Java, to which all beyond the basic plane belongs.
func unwritable(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// nodeName maps a key of the engine to the name of its node. The mapping is injective, and a plain name stays
// readable: only what ZooKeeper does not allow, the slash and the percent sign become % and two digits for each byte,
// and the dots of "." and "..".
func nodeName(key string) string {
	if key == "." || key == ".." {
		return strings.ReplaceAll(key, ".", "%2E")
	}
	plain := func(r rune) bool { return r != '%' && r != '/' && !unwritable(r) }
	if !strings.ContainsFunc(key, func(r rune) bool { return !plain(r) }) {
		return key
	}
	var name strings.Builder
	for i := 0; i < len(key); {
		r, size := utf8.DecodeRuneInString(key[i:])
		if plain(r) {
			name.WriteString(key[i : i+size])
		} else {
			for _, c := range []byte(key[i : i+size]) {
				name.WriteByte('%')
				name.WriteString(strings.ToUpper(hex.EncodeToString([]byte{c})))
			}
		}
		i += size
	}
	return name.String()
}

// keyOf undoes nodeName. ok is false for what nodeName does not make.
func keyOf(name string) (key string, ok bool) {
	var text strings.Builder
	for rest := name; rest != ""; {
		plain, escaped, found := strings.Cut(rest, "%")
		text.WriteString(plain)
		if !found {
			break
		}
		if len(escaped) < 2 {
			return "", false
		}
		c, err := hex.DecodeString(escaped[:2])
		if err != nil {
			return "", false
		}
		text.Write(c)
		rest = escaped[2:]
	}
	key = text.String()
	return key, key != "" && nodeName(key) == name
}

// path is that of the node of a key.
func (b *Backend) path(key string) string { return b.options.Root + "/" + nodeName(key) }

// childOf is the path of the ephemeral node of a term, below the node of its key. It is that of no other term.
func childOf(path, token string) string {
	sum := sha256.Sum256([]byte(token))
	return path + "/term-" + hex.EncodeToString(sum[:8])
}
