package etcdleader_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/etcdleader"
)

// names matches a request that names a key.
func names(place string) func(request []byte) bool {
	return func(request []byte) bool { return bytes.Contains(request, []byte(place)) }
}

func caught(t testing.TB, trap *netfault.Trap) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := trap.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

// unknown makes an attempt whose answer does not come in time.
func unknown(t testing.TB, b backend.Driver, req backend.Request) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*brief)
	defer cancel()
	_, err := b.TryAcquire(ctx, req)
	if !errors.Is(err, context.DeadlineExceeded) || backend.KindOf(err) != backend.Unavailable {
		t.Fatalf("TryAcquire: %v of kind %v, want DeadlineExceeded and Unavailable", err, backend.KindOf(err))
	}
}

func TestBackend_UnansweredAttempt_SpendsItsLease(t *testing.T) {
	server := ownServer(t)
	b, proxy := behind(t, server, prefix())
	client := connect(t, server)
	release(t, win(t, b, request("warm-up", long)), 0)
	pooled := leases(t, client)
	if len(pooled) != 1 {
		t.Fatalf("%d leases, want one in the pool", len(pooled))
	}

	trap := proxy.HoldRequest(names(b.Place("job")))
	unknown(t, b, request("job", long))
	caught(t, trap)
	if err := trap.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lease is revoked, and with it the late key", func() bool {
		return !slices.Contains(leases(t, client), pooled[0]) && len(keys(t, client, b.Place(""))) == 0
	})
	win(t, b, request("job", long))
	if id := leaseOf(t, client, b.Place("job")); id == pooled[0] {
		t.Error("the lease with an unresolved request was used again")
	}
}

func TestBackend_Abandon_StopsAnAttemptThatArrivesLater(t *testing.T) {
	server := ownServer(t)
	client := connect(t, server)
	b, proxy := behind(t, server, prefix())
	other := open(t, client, &etcdleader.Options{Prefix: b.Place("")})
	release(t, win(t, b, request("warm-up", long)), 0)

	trap := proxy.HoldRequest(names(b.Place("job")))
	req := request("job", long)
	unknown(t, b, req)
	caught(t, trap)
	over := make(chan error, 1)
	go func() { over <- b.Abandon(t.Context(), req) }() // behind the attempt, on the same connection
	if err := trap.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := result(t, "Abandon", over); err != nil {
		t.Fatal(err)
	}
	if h := inspect(t, other, "job"); !h.Free() {
		t.Errorf("after Abandon: %+v", h)
	}
	win(t, other, request("job", long))
}

func TestBackend_LostAnswer_IsRepeatedUnderAnotherLease(t *testing.T) {
	server := ownServer(t)
	client := connect(t, server)
	b, proxy := behind(t, server, prefix())
	other := open(t, client, &etcdleader.Options{Prefix: b.Place("")})
	release(t, win(t, b, request("warm-up", long)), 0)
	pooled := leases(t, client)[0]

	trap := proxy.SwallowReply(names(b.Place("job")))
	req := request("job", long)
	ctx, cancel := context.WithTimeout(t.Context(), 3*brief)
	defer cancel()
	if _, err := b.TryAcquire(ctx, req); err == nil {
		t.Fatal("the answer was not lost")
	}
	caught(t, trap)
	proxy.Mend()
	fence := inspect(t, other, "job").Fence // 0 if its lease was revoked already
	var lease backend.Lease
	eventually(t, "the repeated attempt is answered", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var err error
		lease, err = b.TryAcquire(ctx, req)
		return err == nil
	})
	if lease.Fence() < fence {
		t.Errorf("fence %d after %d", lease.Fence(), fence)
	}
	if id := leaseOf(t, client, b.Place("job")); id == pooled {
		t.Error("the key is under the lease of the lost attempt")
	}
	eventually(t, "the lease of the lost attempt is revoked", func() bool {
		return !slices.Contains(leases(t, client), pooled)
	})
	renew(t, lease)
	if h := inspect(t, other, "job"); h.Fence != lease.Fence() {
		t.Errorf("fence %d, and %d in the record", lease.Fence(), h.Fence)
	}
}

func TestBackend_LostAnswer_OfAReleaseSpendsTheLease(t *testing.T) {
	server := ownServer(t)
	client := connect(t, server)
	b, proxy := behind(t, server, prefix())
	lease := win(t, b, request("job", long))
	pooled := leaseOf(t, client, b.Place("job"))
	trap := proxy.SwallowReply(names(b.Place("job")))
	ctx, cancel := context.WithTimeout(t.Context(), 3*brief)
	defer cancel()
	if err := lease.Release(ctx, 0); err == nil {
		t.Fatal("the answer was not lost")
	}
	caught(t, trap)
	proxy.Mend()
	eventually(t, "the repeated release is answered", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return lease.Release(ctx, 0) == nil
	})
	eventually(t, "the lease is revoked", func() bool { return !slices.Contains(leases(t, client), pooled) })
	if list := keys(t, client, b.Place("")); len(list) != 0 {
		t.Errorf("keys %q are left", list)
	}
}

func TestBackend_UnansweredRenewal_KeepsTheTermAndSpendsTheLease(t *testing.T) {
	server := ownServer(t)
	client := connect(t, server)
	b, proxy := behind(t, server, prefix())
	lease := win(t, b, request("job", long))
	pooled := leaseOf(t, client, b.Place("job"))
	proxy.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	if err := lease.Renew(ctx, long); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Renew: %v, want DeadlineExceeded", err)
	}
	proxy.Thaw()
	renew(t, lease)
	release(t, lease, 0)
	eventually(t, "the lease is revoked", func() bool { return !slices.Contains(leases(t, client), pooled) })
}

func TestBackend_Waiters_WorkAgainAfterARestart(t *testing.T) {
	server := ownServer(t)
	b := open(t, connect(t, server), nil)
	lease := win(t, b, request("job", long))
	seen := holder(t, b, "job").Seen
	wait := await(t.Context(), b, "job", seen)
	waiting(t, wait)
	server.Restart(t)
	eventually(t, "the server answers again", func() bool {
		_, err := b.Inspect(t.Context(), "job")
		return err == nil
	})
	select {
	case err := <-wait: // told that it has to poll
		if err != nil && backend.KindOf(err) != backend.Unavailable {
			t.Errorf("AwaitRelease: %v of kind %v", err, backend.KindOf(err))
		}
		wait = await(t.Context(), b, "job", seen)
		waiting(t, wait)
	case <-time.After(brief):
	}
	release(t, lease, 0)
	if err := result(t, "the release", wait); err != nil && backend.KindOf(err) != backend.Unavailable {
		t.Errorf("AwaitRelease: %v of kind %v", err, backend.KindOf(err))
	}
}
