package k8sleader_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/goleader/leader/backend"
)

// A proxy that has lost its way knows nothing of Leases.
func TestBackend_NotFoundOfAProxy_IsNoDeletion(t *testing.T) {
	c := sharedCluster(t)
	b, w := openWired(t, c)
	lease := win(t, b, request("a", long))
	w.before.set(func(request *http.Request) error {
		return answer(request, http.StatusNotFound, page("404 page not found"))
	})
	_, held := b.Inspect(t.Context(), "a")
	_, won := b.TryAcquire(t.Context(), request("a", long))
	for what, err := range map[string]error{
		"Renew":      lease.Renew(t.Context(), long),
		"Release":    lease.Release(t.Context(), 0),
		"Inspect":    held,
		"TryAcquire": won,
		"Abandon":    b.Abandon(t.Context(), request("a", long)),
	} {
		if err == nil || errors.Is(err, backend.ErrLost) || errors.Is(err, backend.ErrHeld) {
			t.Errorf("%s: %v, want an error that says nothing of the lease", what, err)
		}
	}
	w.before.set(nil)
	renew(t, lease, long)
}

func TestLease_Renew_RefusedWithAConflictEachTimeHasNotRenewed(t *testing.T) {
	c := sharedCluster(t)
	b, w := openWired(t, c)
	lease := win(t, b, request("a", long))
	before := c.get(t, "a").Spec.RenewTime
	w.before.set(func(request *http.Request) error {
		if request.Method == http.MethodPatch {
			return answer(request, http.StatusConflict, page("somebody writes all the time"))
		}
		return nil
	})
	err := lease.Renew(t.Context(), long)
	if after := c.get(t, "a").Spec.RenewTime; after.Equal(before) && (err == nil || errors.Is(err, backend.ErrLost)) {
		t.Errorf("Renew: %v, and nothing was renewed", err)
	}
}

// The client repeats a request when the server asks for that, which it also does after a write that it has applied.
func TestBackend_WriteThatTheClientRepeats_IsOne(t *testing.T) {
	c := sharedCluster(t)
	b, w := openWired(t, c)
	again := func(method string) {
		t.Helper()
		var done atomic.Bool
		w.after.set(func(request *http.Request) error {
			if request.Method != method || !done.CompareAndSwap(false, true) {
				return nil
			}
			said := answer(request, http.StatusInternalServerError, page("again"))
			said.response.Header.Set("Retry-After", "0")
			return said
		})
	}
	again(http.MethodPut)
	lease := win(t, b, request("a", long))
	again(http.MethodPatch)
	renew(t, lease, long)
	again(http.MethodPatch)
	release(t, lease, long)
	if h := inspect(t, b, "a"); !h.Kept {
		t.Errorf("after the release: %+v", h)
	}

	again(http.MethodPost)
	r := put(t, b, backend.Record{Key: "job!run/1", Value: []byte("1")})
	again(http.MethodPatch)
	r = put(t, b, r)
	again(http.MethodDelete)
	if err := b.DeleteRecord(t.Context(), r); err != nil {
		t.Errorf("DeleteRecord: %v", err)
	}

	put(t, b, backend.Record{Key: "job!run/2", TTL: brief})
	eventually(t, "the record has ended, and is replaced", func() bool {
		again(http.MethodPut)
		_, err := b.PutRecord(t.Context(), backend.Record{Key: "job!run/2", TTL: long})
		if err != nil && !errors.Is(err, backend.ErrConflict) {
			t.Fatal(err)
		}
		return err == nil
	})
	list, _, err := b.GetRecords(t.Context(), "job!run/")
	if err != nil || len(list) != 1 || list[0].TTL < long/2 {
		t.Errorf("records %+v, %v, want the one that replaced another", list, err)
	}
}

// The write of a slot that the client repeats meets itself.
func TestBackend_TryAcquireSlot_AWriteThatTheClientRepeatsIsOneSlot(t *testing.T) {
	const n = 5
	c := sharedCluster(t)
	b, w := openWired(t, c)
	for range n { // whose objects are there afterwards
		if _, _, err := b.TryAcquireSlot(t.Context(), request("g", long), n); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		h := inspect(t, b, backend.SlotKey("g", i))
		if err := b.Break(t.Context(), backend.SlotKey("g", i), h.Fence); err != nil {
			t.Fatal(err)
		}
	}
	var done atomic.Bool
	w.after.set(func(request *http.Request) error {
		if request.Method != http.MethodPut || !done.CompareAndSwap(false, true) {
			return nil
		}
		said := answer(request, http.StatusInternalServerError, page("again"))
		said.response.Header.Set("Retry-After", "0")
		return said
	})
	lease, slot, err := b.TryAcquireSlot(t.Context(), request("g", long), n)
	if err != nil || !done.Load() {
		t.Fatalf("%v, repeated %t", err, done.Load())
	}
	for i := range n {
		h := inspect(t, b, backend.SlotKey("g", i))
		if i == slot && h.Fence != lease.Fence() || i != slot && !h.Free() {
			t.Errorf("slot %d has %+v, and the lease is of slot %d", i, h, slot)
		}
	}
}

// A proxy that ends every watch at once must not make us open one after the other.
func TestBackend_WatchThatEndsAtOnce_IsNotOpenedAgainAndAgain(t *testing.T) {
	c := sharedCluster(t)
	b, w := openWired(t, c)
	w.before.set(func(request *http.Request) error {
		if isWatch(request) {
			return answer(request, http.StatusOK, page(""))
		}
		return nil
	})
	n, ok := win(t, b, request("a", long)).(backend.LossNotifier)
	if !ok {
		t.Fatal("a lease that does not tell of its loss")
	}
	lost := n.Lost()
	var watched error
	for _, watched = range b.Watch(t.Context(), "a") {
	}
	if watched == nil {
		t.Error("Watch ended without an error")
	}
	eventually(t, "both have opened a watch", func() bool { return w.watches.Load() >= 2 })
	time.Sleep(500 * time.Millisecond) // many could be opened in this time
	if n := w.watches.Load(); n > 4 {
		t.Errorf("%d watches", n)
	}
	select {
	case <-lost:
		t.Error("the end of a watch was taken for the end of the lease")
	default:
	}
}

// A watch through which nothing comes looks like one of a Lease that nobody renews.
func TestBackend_Watch_SilentOneEndsNoLease(t *testing.T) {
	c := sharedCluster(t)
	b, w := openWired(t, c)
	w.before.set(func(request *http.Request) error {
		if !isWatch(request) {
			return nil
		}
		silent, _ := io.Pipe()
		return answer(request, http.StatusOK, silent)
	})
	const ttl = 3 * brief
	lease := win(t, c.open(t), request("a", ttl))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var released atomic.Bool
	told := make(chan error, 1)
	go func() {
		for h, err := range b.Watch(ctx, "a") {
			if err != nil || h.Free() && !released.Load() {
				told <- errors.Join(errors.New("told of the end of a lease that was renewed"), err)
				return
			}
			if h.Free() {
				close(told)
				return
			}
		}
	}()
	for range 4 {
		time.Sleep(ttl / 3)
		renew(t, lease, ttl)
	}
	released.Store(true)
	release(t, lease, 0)
	if err := receive(t, told); err != nil {
		t.Error(err)
	}
}

func TestLease_Lost_IsToldOfARecordThatCannotBeRead(t *testing.T) {
	c := sharedCluster(t)
	lease := win(t, c.open(t), request("a", long))
	n, ok := lease.(backend.LossNotifier)
	if !ok {
		t.Fatal("a lease that does not tell of its loss")
	}
	lost := n.Lost()
	c.edit(t, "a", func(lease *coordinationv1.Lease) { lease.Annotations[note("format")] = "2" })
	select {
	case <-lost:
	case <-time.After(patience):
		t.Fatal("never told")
	}
}
