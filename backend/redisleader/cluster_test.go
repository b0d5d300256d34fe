package redisleader_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/redisleader"
	"github.com/goleader/leader/internal/testserver"
)

func startCluster(t testing.TB) (*redisleader.Backend, *testserver.Server) {
	t.Helper()
	server := testserver.Redis(t, testserver.RedisCluster())
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { _ = client.Close() })
	return open(t, client, nil), server
}

func TestBackend_Cluster_WorksWithNamesThatHaveBraces(t *testing.T) {
	b, server := startCluster(t)
	raw := connect(t, server)
	for _, key := range []string{"{}", "}{", "{", "}", "a{b}c", "plain", "{a}#3", "}!run/{"} {
		lease := win(t, b, request(key, long))
		if h := holder(t, b, key); h.Fence != lease.Fence() {
			t.Errorf("%q: %+v", key, h)
		}
		renew(t, lease, long)
		release(t, lease, 0)
		if err := b.Abandon(t.Context(), request(key, long)); err != nil {
			t.Errorf("%q: %v", key, err)
		}
		if !inspect(t, b, key).Free() {
			t.Errorf("%q is not free", key)
		}
	}
	if n := raw.DBSize(t.Context()).Val(); n != 8 {
		t.Errorf("%d keys", n)
	}
	if warnings, err := b.Advise(t.Context()); err != nil || len(warnings) > 0 {
		t.Errorf("Advise: %q, %v", warnings, err)
	}
}

func TestBackend_Cluster_PutsEverythingOfANameIntoOneSlot(t *testing.T) {
	b, server := startCluster(t)
	raw := connect(t, server)
	for _, name := range []string{"plain", "{}", "}{", "a}b", `\`} {
		slots := map[int64]bool{}
		for _, key := range []string{name, backend.SlotKey(name, 7), name + "!candidate/x}{"} {
			before := raw.Keys(t.Context(), "*").Val()
			release(t, win(t, b, request(key, long)), 0)
			known := map[string]bool{}
			for _, k := range before {
				known[k] = true
			}
			for _, k := range raw.Keys(t.Context(), "*").Val() {
				if !known[k] {
					slots[raw.ClusterKeySlot(t.Context(), k).Val()] = true
				}
			}
		}
		if len(slots) != 1 {
			t.Errorf("%q is in slots %v", name, slots)
		}
	}
}

func TestBackend_Cluster_WakesWaitersOfSeveralSlotsOverOneConnectionPerNode(t *testing.T) {
	b, server := startCluster(t)
	raw := connect(t, server)
	const names = 20
	var leases []backend.Lease
	var waits []<-chan error
	for i := range names {
		key := strconv.Itoa(i)
		leases = append(leases, win(t, b, request(key, long)))
		waits = append(waits, await(t.Context(), b, key, holder(t, b, key).Seen))
	}
	subscribed(t, raw, names)
	if clients, _ := subscriptions(t, raw); clients != 1 {
		t.Errorf("%d pub/sub connections", clients)
	}
	for i, lease := range leases {
		waiting(t, waits[i])
		release(t, lease, 0)
		woken(t, strconv.Itoa(i), waits[i])
	}
}

func TestBackend_Cluster_ASlotThatNobodyServesIsUnavailable(t *testing.T) {
	b, server := startCluster(t)
	inspect(t, b, "a")
	if err := connect(t, server).Do(t.Context(), "cluster", "delslotsrange", "0", "16383").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := b.TryAcquire(t.Context(), request("a", long))
	kind(t, "TryAcquire", err, backend.Unavailable)
}

func TestBackend_Cluster_ItsClientOnASingleServerIsMisconfigured(t *testing.T) {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{testserver.Redis(t).Addr()}})
	t.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := open(t, client, nil).TryAcquire(ctx, request("a", long))
	kind(t, "TryAcquire", err, backend.Misconfigured)
}
