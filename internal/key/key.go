// Package key builds and reads the keys under which stores keep leases and records: an escaped namespace and a slash if
// there is one, an escaped name, and then a number sign and the slot of a lease of a group, or an exclamation mark, the
// kind and a slash of a record (rule 11 of package backend). Different names never have one key.
package key

import (
	"strconv"
	"strings"
)

// Key is what a key says.
type Key struct {
	Namespace string
	Name      string
	Slot      int
	Group     bool // it is a slot of a group
}

var (
	escaper   = strings.NewReplacer("%", "%p", "/", "%s", "#", "%h", "!", "%e")
	unescaper = strings.NewReplacer("%p", "%", "%s", "/", "%h", "#", "%e", "!")
)

// Escape replaces what separates the parts of a key.
func Escape(s string) string {
	if !strings.ContainsAny(s, "%/#!") {
		return s
	}
	return escaper.Replace(s)
}

// String builds the key.
func (k Key) String() string {
	s := Prefix(k.Namespace) + Escape(k.Name)
	if k.Group {
		s += "#" + strconv.Itoa(k.Slot)
	}
	return s
}

// Prefix is what all keys of a namespace begin with; "" stands for none.
func Prefix(namespace string) string {
	if namespace == "" {
		return ""
	}
	return Escape(namespace) + "/"
}

// Record is the key of a record of a name.
func (k Key) Record(kind, id string) string {
	return Prefix(k.Namespace) + Escape(k.Name) + "!" + kind + "/" + Escape(id)
}

// Parse reads a key. It reports false for what package leader does not build.
func Parse(text string) (Key, bool) {
	var k Key
	whole := text
	if namespace, rest, ok := strings.Cut(text, "/"); ok {
		k.Namespace, text = unescaper.Replace(namespace), rest
	}
	if name, slot, ok := strings.Cut(text, "#"); ok {
		n, err := strconv.Atoi(slot)
		if err != nil || n < 0 {
			return Key{}, false
		}
		k.Slot, k.Group, text = n, true, name
	}
	k.Name = unescaper.Replace(text)
	// A stranger's key may read like another one: a%z, a#01.
	if k.Name == "" || k.String() != whole {
		return Key{}, false
	}
	return k, true
}
