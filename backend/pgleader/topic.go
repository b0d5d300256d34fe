package pgleader

import (
	"strconv"
	"strings"

	"github.com/goleader/leader/backend"
)

// topic is a key with listeners, or one that had some not long ago.
type topic struct {
	listeners map[*listener]struct{}
	unused    int // sweeps since the last listener left

	// The end of a lease whose fence is from or later cannot have been missed; 0 means that any can. Of those, the newest
	// that was told of.
	from, ended uint64
}

// covers reports whether whoever saw this state need not look at the row, because the news of its end is still to come.
func (t *topic) covers(seen string) bool {
	fence := heldFence(seen)
	return t.from != 0 && fence >= t.from && fence > t.ended
}

// look notes a holder that was seen since the topic is there.
func (t *topic) look(h backend.Holder) {
	if t.from != 0 || h.Free() {
		return
	}
	t.from = h.Fence
	if h.Kept {
		t.from++ // Its end was told before.
	}
}

// tell wakes those whom a piece of news concerns.
func (t *topic) tell(n news) {
	if !n.taken {
		t.ended = max(t.ended, n.fence)
	}
	for l := range t.listeners {
		if l.watches || !n.taken {
			l.wake()
		}
	}
}

func (l *listener) wake() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// heldFence is the fence of a lease that was seen while it was held, 0 for any other state; see [backend.Holder].Seen.
func heldFence(seen string) uint64 {
	fence, err := strconv.ParseUint(seen, 10, 63)
	if err != nil {
		return 0
	}
	return fence
}

// news is what a notification says: that the lease of a key with this fence has ended, or that it was acquired.
type news struct {
	taken bool
	table uint32 // its OID
	fence uint64
	key   string
}

// parse reads the text of a notification: a plus sign if the key was acquired, the table's OID, the fence and the key.
// Others may send what they like.
func parse(payload string) (n news, ok bool) {
	payload, n.taken = strings.CutPrefix(payload, "+ ")
	first, rest, _ := strings.Cut(payload, " ")
	second, key, _ := strings.Cut(rest, " ")
	table, err := strconv.ParseUint(first, 10, 32)
	n.table, n.fence, n.key = uint32(table), heldFence(second), key
	return n, err == nil && n.fence > 0
}
