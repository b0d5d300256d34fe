package etcdleader_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader"
)

// A lease of etcd cannot be made longer, so the engine renews until the extension has passed.
func TestElector_Extend_HoldsForLongerThanTheLeaseOfTheServer(t *testing.T) {
	b, client := start(t)
	const lease, extension = 1500 * time.Millisecond, 6 * time.Second
	l, err := elector(t, b, "a", lease).Acquire(t.Context(), "job", leader.WithoutAutoExtend())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := l.Extend(t.Context(), extension); err != nil {
		t.Fatal(err)
	}
	answer, err := client.TimeToLive(t.Context(), leaseOf(t, client, b.Place("job")))
	if err != nil || answer.GrantedTTL != 2 {
		t.Errorf("granted %+v, %v, want 2 s", answer, err)
	}
	if left := time.Until(l.TrustedUntil()); left > lease {
		t.Errorf("trusted for %v, want no longer than the server keeps it, %v", left, lease)
	}
	select {
	case <-l.Context().Done():
		t.Fatalf("over after %v of %v: %v", time.Since(began), extension, context.Cause(l.Context()))
	case <-time.After(extension - lease):
	}
	closed(t, "the end of the extension", l.Context().Done())
}

// Whoever has waited for longer than a lease still gets a whole one.
func TestElector_Waiter_GetsAWholeLeaseAfterALongWait(t *testing.T) {
	b, client := start(t)
	const lease = 1500 * time.Millisecond
	held := win(t, b, request("job", long))
	won := make(chan error, 1)
	var ttl *clientv3.LeaseTimeToLiveResponse
	go func() {
		_, err := elector(t, b, "a", lease).RunIfLeader(t.Context(), "job", func(ctx context.Context) (err error) {
			ttl, err = client.TimeToLive(ctx, leaseOf(t, client, b.Place("job")))
			return err
		}, leader.WithWaitTime(patience))
		won <- err
	}()
	waiting(t, won)
	time.Sleep(3 * lease)
	release(t, held, 0)
	woken(t, "the run", won)
	if ttl == nil || ttl.TTL < 1 { // of 2 s, cut to whole ones
		t.Errorf("what is left when the action starts: %+v", ttl)
	}
}
