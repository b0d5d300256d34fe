package etcdleader_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/etcdleader"
)

// lossLease is so long that no renewal, the first of which comes after a third of it, is what tells of a loss.
const lossLease = 6 * patience

func elector(t testing.TB, b backend.Driver, node string, lease time.Duration) *leader.Single {
	t.Helper()
	e, err := leader.New(b, leader.WithNodeID(node), leader.WithLeaseTime(lease),
		leader.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestBackend_Loss_IsToldAtOnceAndSomebodyLeadsAgain(t *testing.T) {
	for version, opts := range versions() {
		for what, end := range map[string]func(client *clientv3.Client, place string) error{
			"revoked lease": func(client *clientv3.Client, place string) error {
				_, err := client.Revoke(t.Context(), leaseOf(t, client, place))
				return err
			},
			"deleted key": func(client *clientv3.Client, place string) error {
				_, err := client.Delete(t.Context(), string(keyAt(t, client, place).Key))
				return err
			},
			"key of another": func(client *clientv3.Client, place string) error {
				remove := clientv3.OpDelete(string(keyAt(t, client, place).Key))
				_, err := client.Txn(t.Context()).Then(remove, clientv3.OpPut(place+"\tanother", "none of ours")).Commit()
				return err
			},
		} {
			t.Run(version+"/"+what, func(t *testing.T) {
				b, client := start(t, opts...)
				place := b.Place("job")
				lease, err := elector(t, b, "a", lossLease).Acquire(t.Context(), "job")
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * etcdleader.WatchAfter) // a loss in a shorter run is told by its release
				if err := end(client, place); err != nil {
					t.Fatal(err)
				}
				closed(t, "the context of a lost lease", lease.Context().Done())
				if cause := context.Cause(lease.Context()); !errors.Is(cause, leader.ErrLeaseLost) {
					t.Errorf("cause %v, want ErrLeaseLost", cause)
				}
				if what == "key of another" {
					if _, err := client.Delete(t.Context(), place+"\tanother"); err != nil {
						t.Fatal(err)
					}
				}
				r, err := elector(t, b, "b", lossLease).RunIfLeader(t.Context(), "job",
					func(context.Context) error { return nil }, leader.WithWaitTime(lossLease))
				if err != nil || r.Outcome != leader.Elected {
					t.Errorf("the next run: %v, %v", r, err)
				}
			})
		}
	}
}

func TestBackend_Renew_RepeatsTheTTLOfTheAcquisition(t *testing.T) {
	b, client := start(t)
	lease := win(t, b, request("job", time.Minute))
	if err := lease.Renew(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	answer, err := client.TimeToLive(t.Context(), leaseOf(t, client, b.Place("job")))
	if err != nil {
		t.Fatal(err)
	}
	if answer.GrantedTTL != 61 || answer.TTL > 61 {
		t.Errorf("granted %d s, %d s left, want 61 s: a minute, 200 ms, rounded up", answer.GrantedTTL, answer.TTL)
	}
}

func TestBackend_Release_ReturnsTheLeaseToThePool(t *testing.T) {
	b, client := start(t)
	place := b.Place("job")
	lease := win(t, b, request("job", long))
	first := leaseOf(t, client, place)
	renew(t, lease)
	release(t, lease, 0)
	for _, key := range []string{"job", "other"} {
		lease = win(t, b, request(key, long))
		if got := leaseOf(t, client, b.Place(key)); got != first {
			t.Errorf("lease %x, want %x from the pool", got, first)
		}
		release(t, lease, 0)
	}
	other := win(t, b, request("job", time.Minute))
	if got := leaseOf(t, client, place); got == first {
		t.Error("a lease of another TTL was used")
	}
	release(t, other, 0)
	if n := len(leases(t, client)); n != 2 {
		t.Errorf("%d leases, want 2", n)
	}
}

func TestBackend_Release_KeepsTheKeyUnderALeaseOfItsOwn(t *testing.T) {
	b, client := start(t)
	lease := win(t, b, request("job", long))
	first := leaseOf(t, client, b.Place("job"))
	release(t, lease, time.Minute)
	kept := leaseOf(t, client, b.Place("job"))
	answer, err := client.TimeToLive(t.Context(), kept)
	if err != nil {
		t.Fatal(err)
	}
	if kept == first || answer.GrantedTTL != 60 {
		t.Errorf("kept under lease %x for %d s, want another than %x, for 60 s", kept, answer.GrantedTTL, first)
	}
	win(t, b, request("other", long))
	if got := leaseOf(t, client, b.Place("other")); got != first {
		t.Errorf("the lease of the term did not go back to the pool")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if h := inspect(t, b, "job"); !h.Kept || h.Remaining < 55*time.Second || h.Remaining > 61*time.Second {
		t.Errorf("after Close: %+v", h)
	}
}

func TestBackend_Held_IsTrueUnderThatLeaseAlone(t *testing.T) {
	b, client := start(t)
	held := func(key string, fence uint64) bool {
		t.Helper()
		answer, err := client.Txn(t.Context()).If(b.Held(key, fence)).Commit()
		if err != nil {
			t.Fatal(err)
		}
		return answer.Succeeded
	}
	lease := win(t, b, request("job", long))
	slot, n := takeSlot(t, b, request("job", long), 3)
	key := backend.SlotKey("job", n)
	if !held("job", lease.Fence()) || !held(key, slot.Fence()) {
		t.Error("a lease is not held")
	}
	if held("job", slot.Fence()) || held("job", lease.Fence()+1) || held("other", lease.Fence()) || held("jo", lease.Fence()) {
		t.Error("another lease is held")
	}
	release(t, lease, 0)
	if held("job", lease.Fence()) {
		t.Error("a lease that was released is held")
	}
	next := win(t, b, request("job", long))
	if held("job", lease.Fence()) || !held("job", next.Fence()) {
		t.Error("it is not the next one that is held")
	}
	release(t, next, long)
	if !held("job", next.Fence()) {
		t.Error("a lease that is kept is not held")
	}
}

func TestBackend_DeadHolder_IsReplacedWithinItsLeaseAndLimitsLate(t *testing.T) {
	b, client := start(t)
	other := open(t, client, &etcdleader.Options{Prefix: b.Place("")})
	const ttl = 1500 * time.Millisecond
	win(t, b, request("job", ttl))
	began := time.Now()
	seen := holder(t, other, "job").Seen
	woken(t, "the end of a lease", await(t.Context(), other, "job", seen))
	took := time.Since(began)
	win(t, other, request("job", long))
	if limit := ttl + other.Limits().Late; took > limit {
		t.Errorf("free after %v, want at most %v", took, limit)
	}
}

func TestBackend_Attempt_WritesNothingWhenItLoses(t *testing.T) {
	b, client := start(t)
	win(t, b, request("job", long))
	for i := range 3 {
		if _, _, err := b.TryAcquireSlot(t.Context(), request("group", long), 3); err != nil {
			t.Fatal(i, err)
		}
	}
	other := open(t, client, &etcdleader.Options{Prefix: b.Place("")})
	before := revision(t, client)
	for range 100 {
		holder(t, other, "job")
		if _, _, err := other.TryAcquireSlot(t.Context(), request("group", long), 3); !errors.Is(err, backend.ErrHeld) {
			t.Fatal(err)
		}
	}
	if after := revision(t, client); after != before {
		t.Errorf("revision %d became %d", before, after)
	}
	if n := len(leases(t, client)); n != 5 { // of the holders, and one in the other's pool
		t.Errorf("%d leases, want 5", n)
	}
}

func TestBackend_Attempt_NeverWinsUnderADeadLease(t *testing.T) {
	for version, opts := range versions() {
		t.Run(version, func(t *testing.T) {
			b, client := start(t, opts...)
			release(t, win(t, b, request("warm-up", long)), 0)
			held := open(t, client, &etcdleader.Options{Prefix: b.Place("")})
			lease := win(t, held, request("job", long))
			wait := await(t.Context(), b, "job", holder(t, b, "job").Seen)
			waiting(t, wait)
			for _, id := range leases(t, client) {
				if id == leaseOf(t, client, b.Place("job")) {
					continue
				}
				if _, err := client.Revoke(t.Context(), id); err != nil { // of the waiter
					t.Fatal(err)
				}
			}
			holder(t, b, "job") // which a losing attempt does not notice
			release(t, lease, 0)
			woken(t, "the release", wait)
			win(t, b, request("job", long))
			if id := leaseOf(t, client, b.Place("job")); !slices.Contains(leases(t, client), id) {
				t.Errorf("the key is under lease %x, which is none", id)
			}
		})
	}
}

func TestBackend_Repeat_ByAnotherClientMovesTheKeyUnderItsLease(t *testing.T) {
	b, client := start(t)
	other := open(t, client, &etcdleader.Options{Prefix: b.Place("")})
	req := request("job", long)
	first := win(t, b, req)
	old := leaseOf(t, client, b.Place("job"))
	again := win(t, other, req)
	if again.Fence() != first.Fence() {
		t.Errorf("fence %d became %d", first.Fence(), again.Fence())
	}
	if id := leaseOf(t, client, b.Place("job")); id == old {
		t.Error("the key is under the lease of the earlier attempt")
	}
	lost(t, first) // which would keep the wrong lease alive
	renew(t, again)
	eventually(t, "the earlier lease is revoked", func() bool { return !slices.Contains(leases(t, client), old) })
	renew(t, again)
	release(t, again, 0)
}

// The name of a key that was moved is not the holder's own, and may be another's by the time of the release.
func TestBackend_Release_OfAMovedKeyEndsNoOther(t *testing.T) {
	b, client := start(t)
	other := open(t, client, &etcdleader.Options{Prefix: b.Place("")})
	req := request("job", long)
	first := win(t, b, req)
	again := win(t, other, req)
	release(t, first, 0) // the token's
	next := win(t, b, request("job", long))
	release(t, again, 0)
	renew(t, next)
	if h := inspect(t, b, "job"); h.Fence != next.Fence() {
		t.Errorf("the holder is %+v, want fence %d", h, next.Fence())
	}
}
