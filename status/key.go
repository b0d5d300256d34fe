package status

import (
	"github.com/goleader/leader/internal/key"
)

// maxSlots is the most slots that a group may have.
const maxSlots = 10_000

// id is what one row of the page is about. A group and a plain elector of one name have nothing to do with each other.
type id struct {
	namespace, name string
	group           bool
}

// key is the key of the name in the store.
func (i id) key() string { return key.Key{Namespace: i.namespace, Name: i.name}.String() }

// slotKey is the key of a slot, or of the name itself outside groups.
func (i id) slotKey(slot int) string {
	return key.Key{Namespace: i.namespace, Name: i.name, Group: i.group, Slot: slot}.String()
}

// parse is what a key was built from. It reports false for what is no key of a lease.
func parse(text string) (i id, slot int, ok bool) {
	k, ok := key.Parse(text)
	return id{k.Namespace, k.Name, k.Group}, k.Slot, ok && k.Slot < maxSlots
}
