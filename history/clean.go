package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean returns s with a question mark for each character that is unsafe to print, cut to limit bytes.
func clean(s string, limit int) string {
	if len(s) <= limit && !strings.ContainsFunc(s, unsafe) {
		return s
	}
	var b strings.Builder // a copy: a part of s would keep all of it in memory
	for _, c := range s {
		if unsafe(c) {
			c = '?'
		}
		if b.Len()+utf8.RuneLen(c) > limit {
			break
		}
		b.WriteRune(c)
	}
	return b.String()
}

// unsafe reports whether c could end or alter a line where it is printed. What is not UTF-8 is seen as RuneError.
func unsafe(c rune) bool {
	return unicode.IsControl(c) || c == '\u2028' || c == '\u2029' || c == utf8.RuneError
}

// errorText is what err says. Printing survives an Error method that panics.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return clean(fmt.Sprint(err), maxError)
}

// errorType is the type of err, or of the first error that it wraps whose type says more than that.
func errorType(err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		text := fmt.Sprintf("%T", err)
		if !strings.HasPrefix(text, "*fmt.") && !strings.HasPrefix(text, "*errors.") {
			return clean(text, maxText)
		}
	}
	return ""
}

// cleanMetadata is a copy of the first entries of m, by key, in the form that records have.
func cleanMetadata(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	cleaned := make(map[string]string, min(len(m), maxMetadata))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if len(cleaned) == maxMetadata {
			break
		}
		cleaned[clean(key, maxMetadataKey)] = clean(m[key], maxMetadataValue)
	}
	return cleaned
}
