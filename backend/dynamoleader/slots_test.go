package dynamoleader_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/goleader/leader/backend"
)

// beforeUpdate calls f, once, before the next update that w lets pass.
func beforeUpdate(w *switched, f func()) {
	done := false
	w.set(func(request *http.Request) (*http.Response, error) {
		if operation(request) == "UpdateItem" && !done {
			done = true
			f()
		}
		return nil, nil
	})
}

// keptBack is an update that was not sent.
type keptBack struct {
	request *http.Request
	body    []byte
}

// keepBack fails the next update.
func keepBack(t *testing.T, w *switched) *keptBack {
	t.Helper()
	k := &keptBack{}
	w.set(func(request *http.Request) (*http.Response, error) {
		if operation(request) != "UpdateItem" || k.request != nil {
			return nil, nil
		}
		var err error
		if k.body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		k.request = request.Clone(t.Context())
		return nil, io.ErrUnexpectedEOF
	})
	return k
}

// send sends it after all.
func (k *keptBack) send(t *testing.T) {
	t.Helper()
	k.request.Body = io.NopCloser(bytes.NewReader(k.body))
	answer, err := ownConnections(t).Do(k.request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("the late attempt is answered %s", answer.Status)
	}
}

// slot is the one that it is about.
func (k *keptBack) slot(t *testing.T, n int) int {
	t.Helper()
	for i := range n {
		if bytes.Contains(k.body, fmt.Appendf(nil, `"lease#%d"`, i)) {
			return i
		}
	}
	t.Fatalf("an update of no slot: %s", k.body)
	return 0
}

// An attempt whose answer was lost may arrive between the query and the update of its repetition.
func TestBackend_TryAcquireSlot_OwnLateAttemptIsItsSlot(t *testing.T) {
	const n = 5
	s := newTable(t)
	var w switched
	b := s.openWith(t, over(w.wrap))
	req := request("g", long)
	late := keepBack(t, &w)
	if _, _, err := b.TryAcquireSlot(t.Context(), req, n); backend.KindOf(err) != backend.Unavailable {
		t.Fatalf("TryAcquireSlot: %v", err)
	}
	beforeUpdate(&w, func() { late.send(t) })
	lease, slot, err := b.TryAcquireSlot(t.Context(), req, n)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		h := inspect(t, s.open(t), backend.SlotKey("g", i))
		if i == slot && h.Fence != lease.Fence() || i != slot && !h.Free() {
			t.Errorf("slot %d has %+v, and the lease is of slot %d", i, h, slot)
		}
	}
}

// A token that is spent while it is tried gets no other slot.
func TestBackend_TryAcquireSlot_AbandonedMeanwhile_IsRefused(t *testing.T) {
	const n = 5
	s := newTable(t)
	other := s.open(t)
	for range 4 { // By chance the abandoned slot itself could be tried next.
		var w switched
		b := s.openWith(t, over(w.wrap))
		req := request("g", long)
		tried := keepBack(t, &w)
		if _, _, err := b.TryAcquireSlot(t.Context(), req, n); backend.KindOf(err) != backend.Unavailable {
			t.Fatalf("TryAcquireSlot: %v", err)
		}
		beforeUpdate(&w, func() {
			abandoned := req
			abandoned.Key = backend.SlotKey("g", tried.slot(t, n))
			if err := other.Abandon(t.Context(), abandoned); err != nil {
				t.Error(err)
			}
		})
		if _, slot, err := b.TryAcquireSlot(t.Context(), req, n); !errors.Is(err, backend.ErrLost) {
			t.Errorf("slot %d, %v, want ErrLost", slot, err)
		}
	}
}
