package redisleader_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
)

// brief is a TTL that tests let end; long one that they do not outlive.
const (
	brief = 50 * time.Millisecond
	long  = 10 * time.Minute
)

func lost(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, backend.ErrLost) {
		t.Errorf("%s: %v, want ErrLost", what, err)
	}
}

func renew(t testing.TB, lease backend.Lease, ttl time.Duration) {
	t.Helper()
	if err := lease.Renew(t.Context(), ttl); err != nil {
		t.Fatalf("Renew(%v): %v", ttl, err)
	}
}

// expire lets the lease of key end.
func expire(t testing.TB, b backend.Driver, key string) {
	t.Helper()
	eventually(t, "the lease has expired", func() bool { return inspect(t, b, key).Free() })
}

// end is what the record says of the lease's end, in µs.
func end(t testing.TB, client *redis.Client) int64 {
	t.Helper()
	return number(t, record(t, client)["until"])
}

func TestBackend_TryAcquire_RefreshesItsOwnLeaseAndNeverShortensIt(t *testing.T) {
	b, client := start(t)
	req := request("a", time.Minute)
	lease := win(t, b, req)
	first := end(t, client)

	req.TTL = long
	again := win(t, b, req)
	second := end(t, client)
	if again.Fence() != lease.Fence() || second < first+(long-2*time.Minute).Microseconds() {
		t.Errorf("fence %d, then %d; end %d, then %d", lease.Fence(), again.Fence(), first, second)
	}
	req.TTL = time.Second
	if win(t, b, req); end(t, client) != second {
		t.Errorf("a shorter repeat moved the end from %d to %d", second, end(t, client))
	}
	release(t, lease, 0)
	lost(t, "Renew by the other handle", again.Renew(t.Context(), long))
}

func TestBackend_TryAcquire_TakesAnExpiredLeaseWithoutItsHolder(t *testing.T) {
	b, _ := start(t)
	dead := win(t, b, request("a", brief))
	expire(t, b, "a")
	lost(t, "Renew of an expired lease that nobody took", dead.Renew(t.Context(), long))
	if !inspect(t, b, "a").Free() {
		t.Error("a late renewal revived the lease")
	}

	next := win(t, b, request("a", long))
	if next.Fence() <= dead.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), dead.Fence())
	}
	release(t, dead, 0)
	release(t, dead, time.Minute)
	lost(t, "Renew of a taken lease", dead.Renew(t.Context(), long))
	if h := inspect(t, b, "a"); h.Fence != next.Fence() || h.Kept {
		t.Errorf("the successor was disturbed: %+v", h)
	}
	renew(t, next, long)
}

func TestLease_Renew_MovesTheEndAndNeverShortensIt(t *testing.T) {
	b, client := start(t)
	lease := win(t, b, request("a", time.Minute))
	renew(t, lease, long)
	later := end(t, client)
	renew(t, lease, time.Second)
	if end(t, client) != later {
		t.Errorf("the end moved from %d to %d", later, end(t, client))
	}
	if left := inspect(t, b, "a").Remaining; left < long-time.Minute || left > long {
		t.Errorf("remaining %v", left)
	}
}

func TestLease_Renew_CreatesNothing(t *testing.T) {
	b, client := start(t)
	lease := win(t, b, request("a", long))
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	lost(t, "Renew", lease.Renew(t.Context(), long))
	release(t, lease, 0)
	release(t, lease, time.Minute)
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys", n)
	}
}

func TestLease_Release_SpendsTheToken(t *testing.T) {
	b, _ := start(t)
	req := request("a", long)
	lease := win(t, b, req)
	release(t, lease, 0)
	release(t, lease, 0)
	lost(t, "Renew", lease.Renew(t.Context(), long))
	_, err := b.TryAcquire(t.Context(), req)
	lost(t, "TryAcquire with a spent token", err)
	if !inspect(t, b, "a").Free() {
		t.Error("not free")
	}
	win(t, b, request("a", long))
}

func TestLease_Release_KeepsTheKeyTaken(t *testing.T) {
	b, client := start(t)
	req := request("a", long)
	lease := win(t, b, req)
	release(t, lease, long)
	h := holder(t, b, "a")
	if !h.Kept || h.Fence != lease.Fence() || h.Owner != "node-1" || h.Remaining > long || h.Remaining < long-time.Minute {
		t.Errorf("holder %+v", h)
	}
	lost(t, "Renew of a kept lease", lease.Renew(t.Context(), 2*long))
	_, err := b.TryAcquire(t.Context(), req)
	lost(t, "TryAcquire with the token of a kept key", err)
	checkRetention(t, client, long)

	release(t, lease, time.Minute)
	if h := inspect(t, b, "a"); h.Remaining > time.Minute || !h.Kept {
		t.Errorf("a repeated release added to keep: %+v", h)
	}
	release(t, lease, brief)
	expire(t, b, "a")
	release(t, lease, long)
	if !inspect(t, b, "a").Free() {
		t.Error("a release after the end of keep takes the key again")
	}
	if next := win(t, b, request("a", long)); next.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
	}
}

func TestLease_Release_OfAKeptKeyFreesIt(t *testing.T) {
	b, _ := start(t)
	lease := win(t, b, request("a", long))
	release(t, lease, long)
	release(t, lease, 0)
	win(t, b, request("a", long))
}

func TestLease_Release_RefusesAKeepBeyondTheLimits(t *testing.T) {
	b, _ := start(t)
	lease := win(t, b, request("a", long))
	if err := lease.Release(t.Context(), b.Limits().MaxTTL+1); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("Release: %v", err)
	}
	renew(t, lease, long)
}

func TestBackend_Abandon_RefusesALateDuplicate(t *testing.T) {
	for name, before := range map[string]func(b backend.Driver, req backend.Request){
		"nothing":         func(backend.Driver, backend.Request) {},
		"the lease":       func(b backend.Driver, req backend.Request) { win(t, b, req) },
		"a released one":  func(b backend.Driver, _ backend.Request) { release(t, win(t, b, request("a", long)), 0) },
		"an expired one":  func(b backend.Driver, _ backend.Request) { win(t, b, request("a", brief)); expire(t, b, "a") },
		"its own expired": func(b backend.Driver, req backend.Request) { req.TTL = brief; win(t, b, req); expire(t, b, "a") },
	} {
		t.Run(name, func(t *testing.T) {
			b, client := start(t)
			req := request("a", long)
			before(b, req)
			for range 2 {
				if err := b.Abandon(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			}
			fence := number(t, record(t, client)["fence"])
			checkRetention(t, client, 0)
			_, err := b.TryAcquire(t.Context(), req)
			lost(t, "a late duplicate", err)
			if !inspect(t, b, "a").Free() {
				t.Error("not free")
			}
			if next := win(t, b, request("a", long)); next.Fence() <= uint64(fence) {
				t.Errorf("fence %d after %d", next.Fence(), fence)
			}
		})
	}
}

func TestBackend_Abandon_LeavesOthersAlone(t *testing.T) {
	for name, keep := range map[string]time.Duration{"a lease": 0, "a kept key": long} {
		t.Run(name, func(t *testing.T) {
			b, client := start(t)
			lease := win(t, b, request("a", long))
			if keep > 0 {
				release(t, lease, keep)
			}
			before := client.Dump(t.Context(), only(t, client)).Val()
			if err := b.Abandon(t.Context(), request("a", long)); err != nil {
				t.Fatal(err)
			}
			if after := client.Dump(t.Context(), only(t, client)).Val(); after != before {
				t.Errorf("record %v", record(t, client))
			}
		})
	}
}
