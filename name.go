package leader

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goleader/leader/internal/key"
)

// maxName is the longest name, namespace or node id, in bytes.
const maxName = 255

// checkName refuses what is not 1 to 255 bytes of UTF-8 without control characters. what says whose rule it is.
func checkName(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: %s is empty", ErrInvalidName, what)
	case len(s) > maxName:
		return fmt.Errorf("%w: %s %.32q… has %d bytes, at most %d are allowed", ErrInvalidName, what, s, len(s), maxName)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: %s %q is not UTF-8", ErrInvalidName, what, s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%w: %s %q contains a control character", ErrInvalidName, what, s)
	}
	return nil
}

// keyOf is the key of a name within a namespace, of which "" is none.
func keyOf(namespace, name string) string { return key.Prefix(namespace) + key.Escape(name) }
