package etcdleader_test

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/etcdleader"
	"github.com/goleader/leader/internal/testserver"
)

const secret = "secret-4711"

// guarded starts a server with users: root, and worker, who may read and write what begins with leader/.
func guarded(t *testing.T, opts ...testserver.EtcdOption) *testserver.Server {
	t.Helper()
	server := ownServer(t, opts...)
	root := connect(t, server)
	ctx := t.Context()
	for _, step := range []func() error{
		func() error { return second(root.UserAdd(ctx, "root", secret)) },
		func() error { return second(root.RoleAdd(ctx, "root")) },
		func() error { return second(root.UserGrantRole(ctx, "root", "root")) },
		func() error { return second(root.UserAdd(ctx, "worker", secret)) },
		func() error { return second(root.RoleAdd(ctx, "worker")) },
		func() error {
			all := clientv3.PermissionType(clientv3.PermReadWrite)
			return second(root.RoleGrantPermission(ctx, "worker", "leader/", clientv3.GetPrefixRangeEnd("leader/"), all))
		},
		func() error { return second(root.UserGrantRole(ctx, "worker", "worker")) },
		func() error { return second(root.AuthEnable(ctx)) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return server
}

func as(t testing.TB, server *testserver.Server, user string, opts *etcdleader.Options) *etcdleader.Backend {
	t.Helper()
	c := clientv3.Config{Endpoints: []string{server.Addr()}}
	if user != "" {
		c.Username, c.Password = user, secret
	}
	return open(t, connectTo(t, c), opts)
}

func TestBackend_Permissions_AreThoseThatAreDocumented(t *testing.T) {
	for version, opts := range versions() {
		t.Run(version, func(t *testing.T) {
			server := guarded(t, opts...)
			b := as(t, server, "worker", nil)
			lease := win(t, b, request("job", long))
			lost := lease.(backend.LossNotifier).Lost()
			renew(t, lease)
			wait := await(t.Context(), b, "job", holder(t, b, "job").Seen)
			waiting(t, wait)
			if h := inspect(t, b, "job"); h.Owner != "node-1" || h.Remaining == 0 {
				t.Errorf("holder %+v", h)
			}
			if got := listed(t, b, ""); len(got) != 1 {
				t.Errorf("listed %q", got)
			}
			if _, _, err := b.TryAcquireSlot(t.Context(), request("group", long), 3); err != nil {
				t.Error(err)
			}
			r := backend.Record{Key: "job!run/1", TTL: long}
			if _, err := b.PutRecord(t.Context(), r); err != nil {
				t.Error(err)
			}
			if list, _, err := b.GetRecords(t.Context(), "job!run/"); err != nil || len(list) != 1 {
				t.Errorf("records %v, %v", list, err)
			}
			if err := b.Break(t.Context(), "job", lease.Fence()); err != nil {
				t.Error(err)
			}
			woken(t, "the break", wait)
			closed(t, "a broken lease", lost)
			if warnings, err := b.Advise(t.Context()); err != nil || len(warnings) > 1 {
				t.Errorf("advice %q, %v", warnings, err)
			}
		})
	}
}

func TestBackend_Refusal_IsDenied(t *testing.T) {
	server := guarded(t)
	c := clientv3.Config{Endpoints: []string{server.Addr()}}
	for what, b := range map[string]*etcdleader.Backend{
		"another prefix": as(t, server, "worker", &etcdleader.Options{Prefix: "other/"}),
		"no user":        open(t, connectTo(t, c), nil),
	} {
		for call, err := range map[string]error{
			"TryAcquire":   second(b.TryAcquire(t.Context(), request("job", long))),
			"Inspect":      second(b.Inspect(t.Context(), "job")),
			"Abandon":      b.Abandon(t.Context(), request("job", long)),
			"Break":        b.Break(t.Context(), "job", 1),
			"PutRecord":    second(b.PutRecord(t.Context(), backend.Record{Key: "job!run/1"})),
			"AwaitRelease": b.AwaitRelease(t.Context(), "job", "1"),
		} {
			if backend.KindOf(err) != backend.Denied {
				t.Errorf("%s: %s: %v of kind %v, want Denied", what, call, err, backend.KindOf(err))
			}
		}
	}
}

// A stream for each keep-alive would authenticate anew each time, which takes the server a tenth of a second.
func TestBackend_Renew_DoesNotAuthenticateAnew(t *testing.T) {
	server := guarded(t)
	b := as(t, server, "worker", nil)
	lease := win(t, b, request("job", long))
	renew(t, lease)
	before := metric(t, server, `grpc_server_msg_received_total{grpc_method="Authenticate"`)
	for range 20 {
		renew(t, lease)
	}
	if n := metric(t, server, `grpc_server_msg_received_total{grpc_method="Authenticate"`) - before; n > 0 {
		t.Errorf("20 renewals authenticated %v times", n)
	}
}

func TestBackend_ClosedClient_IsAnErrorOfEveryCall(t *testing.T) {
	client := connect(t, ownServer(t))
	b := open(t, client, nil)
	lease := win(t, b, request("job", long))
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for call, err := range map[string]error{
		"TryAcquire": second(b.TryAcquire(t.Context(), request("other", long))),
		"Inspect":    second(b.Inspect(t.Context(), "job")),
		"Renew":      lease.Renew(t.Context(), long),
		"Release":    lease.Release(t.Context(), 0),
	} {
		if err == nil || backend.KindOf(err) == backend.Denied {
			t.Errorf("%s: %v of kind %v", call, err, backend.KindOf(err))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.AwaitRelease(ctx, "job", "1"); err == nil || ctx.Err() != nil {
		t.Errorf("AwaitRelease: %v", err)
	}
}
