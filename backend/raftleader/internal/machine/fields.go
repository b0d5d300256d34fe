package machine

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// format is the major version of everything that is encoded here. Within it fields are added with new tags, which an
// earlier release skips.
const format = 1

var (
	errFormat = errors.New("raftleader: written by a release with another format")
	errBroken = errors.New("raftleader: an entry is damaged")
)

// fields is a list of tagged fields, being built. A field is its tag, shifted by one bit that says whether a text
// follows, and a number, or the text behind its length.
type fields []byte

func (f *fields) number(tag, n uint64) {
	if n != 0 {
		*f = binary.AppendUvarint(binary.AppendUvarint(*f, tag<<1), n)
	}
}

func (f *fields) time(tag uint64, at int64) { f.number(tag, uint64(at)) } //nolint:gosec // and back in integer

func (f *fields) text(tag uint64, s string) {
	if s != "" {
		f.put(tag, s)
	}
}

func (f *fields) put(tag uint64, s string) {
	*f = append(binary.AppendUvarint(binary.AppendUvarint(*f, tag<<1|1), uint64(len(s))), s...)
}

// pairs adds keys and values under a tag, in order.
func (f *fields) pairs(tag uint64, m map[string]string) {
	if len(m) == 0 {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		var pair fields
		pair.put(1, key)
		pair.put(2, m[key])
		f.put(tag, string(pair))
	}
}

// field is one field that was read.
type field struct {
	tag    uint64
	number uint64
	text   string
}

func (f field) time() int64 { return int64(f.number) } //nolint:gosec // as it was put by time

// data is what a text field has of bytes; an empty one is as none.
func data(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

// eachField calls take with every field of s.
func eachField(s string, take func(field) error) error {
	for s != "" {
		var f field
		var err error
		if f, s, err = cutField(s); err != nil {
			return err
		}
		if err := take(f); err != nil {
			return err
		}
	}
	return nil
}

// cutField cuts the first field off s.
func cutField(s string) (f field, rest string, err error) {
	tag, s, ok := cutNumber(s)
	if !ok {
		return field{}, "", errBroken
	}
	n, s, ok := cutNumber(s)
	switch {
	case !ok || tag&1 != 0 && n > uint64(len(s)):
		return field{}, "", errBroken
	case tag&1 != 0:
		return field{tag: tag >> 1, text: s[:n]}, s[n:], nil
	}
	return field{tag: tag >> 1, number: n}, s, nil
}

// cutNumber cuts a number off s as encoding/binary writes it.
func cutNumber(s string) (n uint64, rest string, ok bool) {
	for i := range min(len(s), binary.MaxVarintLen64) {
		b := s[i]
		if b < 0x80 {
			overflows := i == binary.MaxVarintLen64-1 && b > 1
			return n | uint64(b)<<(7*i), s[i+1:], !overflows
		}
		n |= uint64(b&0x7f) << (7 * i)
	}
	return 0, "", false
}

// addPair adds a key and a value that [fields.pairs] wrote.
func addPair(m *map[string]string, s string) error {
	var key, value string
	err := eachField(s, func(f field) error {
		switch f.tag {
		case 1:
			key = f.text
		case 2:
			value = f.text
		}
		return nil
	})
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
	return err
}
