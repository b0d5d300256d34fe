package sqlleader

import (
	"strings"
	"unicode/utf8"
)

// span is the keys from from up to but without to, in the order of their bytes. The zero span is empty.
type span struct{ from, to string }

// beyond is greater than every key: they have at most 1600 bytes.
var beyond = strings.Repeat(string(utf8.MaxRune), 1600/utf8.UTFMax+1)

// only is the span of one key: no character of a key comes before the space.
func only(key string) span { return span{key, key + " "} }

// startingWith is the span of the keys that begin with prefix. Its ends are UTF-8 if prefix is.
func startingWith(prefix string) span {
	for rest := prefix; rest != ""; {
		last, size := utf8.DecodeLastRuneInString(rest)
		rest = rest[:len(rest)-size]
		if last != utf8.MaxRune {
			return span{prefix, rest + string(following(last))}
		}
	}
	return span{prefix, beyond}
}

// following is the next character; those that stand for half of one in UTF-16 are none.
func following(r rune) rune {
	if r++; utf8.ValidRune(r) {
		return r
	}
	return '\uE000'
}
