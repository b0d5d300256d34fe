package redisleader_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/redisleader"
	"github.com/goleader/leader/internal/testserver"
)

// replicated returns a backend that asks for one replica, its server, and what starts one replica.
func replicated(t testing.TB) (*redisleader.Backend, func() *testserver.Server) {
	t.Helper()
	server := testserver.Redis(t, testserver.RedisConfig("repl-diskless-sync-delay 0"))
	client := connect(t, server)
	b := open(t, client, &redisleader.Options{MinReplicas: 1, ReplicaTimeout: 2 * brief})
	host, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return b, func() *testserver.Server {
		t.Helper()
		replica := testserver.Redis(t, testserver.RedisConfig("replicaof "+host+" "+port))
		eventually(t, "the replica follows", func() bool {
			return strings.Contains(client.Info(t.Context(), "replication").Val(), "state=online")
		})
		return replica
	}
}

func short(t testing.TB, what string, err error) {
	t.Helper()
	kind(t, what, err, backend.Unavailable)
	if err != nil && !strings.Contains(err.Error(), "0 of the 1 replicas") {
		t.Errorf("%s: %v does not say what is missing", what, err)
	}
}

func TestBackend_MinReplicas_TakesBackWhatTooFewHave(t *testing.T) {
	b, startReplica := replicated(t)
	req := request("a", long)
	for range 2 {
		_, err := b.TryAcquire(t.Context(), req)
		short(t, "TryAcquire without a replica", err)
		if h := inspect(t, b, "a"); !h.Free() {
			t.Errorf("holder %+v", h)
		}
	}
	startReplica()
	var lease backend.Lease
	eventually(t, "the same attempt succeeds with a replica", func() bool {
		var err error
		lease, err = b.TryAcquire(t.Context(), req)
		return err == nil
	})
	renew(t, lease, 2*long)
	release(t, lease, 0)
}

func TestBackend_MinReplicas_LeavesARenewalUnknownAndALoserHeld(t *testing.T) {
	b, startReplica := replicated(t)
	replica := startReplica()
	var lease backend.Lease
	eventually(t, "an attempt succeeds", func() bool {
		var err error
		lease, err = b.TryAcquire(t.Context(), request("a", long))
		return err == nil
	})
	holder(t, b, "a")
	replica.Stop(t)
	t.Cleanup(func() { replica.Cont(t) })
	short(t, "Renew", lease.Renew(t.Context(), 2*long))
	if h := inspect(t, b, "a"); h.Fence != lease.Fence() || h.Kept {
		t.Errorf("the lease was released: %+v", h)
	}
	holder(t, b, "a")
	_, err := b.TryAcquire(t.Context(), request("b", long))
	short(t, "TryAcquire", err)
	replica.Cont(t)
	eventually(t, "a renewal succeeds", func() bool { return lease.Renew(t.Context(), time.Hour) == nil })
	release(t, lease, 0)
	lost(t, "Renew", lease.Renew(t.Context(), long))
}
