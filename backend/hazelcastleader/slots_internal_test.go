package hazelcastleader

import (
	"errors"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
)

// An attempt that found a slot free by one clock, and whose outcome is unknown, may win it later. So the next one must not
// win another slot because by another clock that one is not free yet.
func TestBackend_TakeSlot_WaitsForAnEarlierAttemptThatAnotherClockRefutes(t *testing.T) {
	b := New(nil, &Options{MaxSkew: 5 * time.Second})
	at := instant{1<<40 | 2}
	held := entry{record{Fence: 7, Token: "T", Until: at.ms(), Clock: 1, Nonce: "N"}, "what the attempt replaces"}
	g := &group{slots: []entry{{}, held, {}}, at: at}
	req := backend.Request{Key: "group", Token: "U", TTL: time.Minute}
	_, slot, err := b.takeSlot(t.Context(), req, g, &attempt{slot: 1, before: held.raw})
	if !errors.Is(err, errBusy) || slot != 1 {
		t.Errorf("slot %d, %v, want %v", slot, err, errBusy)
	}
	// If it is another entry the earlier attempt has failed; this one then asks for another slot, by a client that is nil.
	_, slot, err = b.takeSlot(t.Context(), req, g, &attempt{slot: 1, before: "another"})
	if !errors.Is(err, b.Check()) || slot == 1 {
		t.Errorf("slot %d, %v, want another slot", slot, err)
	}
}
