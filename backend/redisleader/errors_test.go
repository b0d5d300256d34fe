package redisleader_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/testserver"
)

// What the package comment says a user has to be allowed, to elect, to wait and to be warned.
const (
	acl     = "~leader:* +evalsha +eval +time +hmget +hset +pexpire +exists"
	groups  = " +hget +hvals +del"
	keeps   = " +hget +hgetall +hdel +hlen +pttl +persist"
	lists   = " +scan"
	waits   = " &leader:* +publish +subscribe +unsubscribe +ping"
	shards  = " &leader:* +spublish +ssubscribe +sunsubscribe +ping +cluster|slots +command"
	advised = " +info"
)

// as returns a client that logs in as a user whose rules are added to the server.
func as(t testing.TB, admin *redis.Client, user, rules string) *redis.Client {
	t.Helper()
	permit(t, admin, user, rules)
	client := redis.NewClient(&redis.Options{Addr: admin.Options().Addr, Username: user, Password: "secret"})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func permit(t testing.TB, admin *redis.Client, user, rules string) {
	t.Helper()
	args := []any{"acl", "setuser", user, "reset", "on", ">secret"}
	for rule := range strings.FieldsSeq(rules) {
		args = append(args, rule)
	}
	if err := admin.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
}

func kind(t testing.TB, what string, err error, want backend.Kind) {
	t.Helper()
	if err == nil || backend.KindOf(err) != want {
		t.Errorf("%s: %v (%v), want %v", what, err, backend.KindOf(err), want)
	}
}

func TestBackend_WrongPassword_IsDeniedAtOnce(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisPassword("right"))
	for _, password := range []string{"", "wrong"} {
		b := open(t, connectTo(t, server.Addr(), password), nil)
		began := time.Now()
		_, err := b.TryAcquire(t.Context(), request("a", long))
		kind(t, "TryAcquire with password "+password, err, backend.Denied)
		if took := time.Since(began); took > patience/4 {
			t.Errorf("it took %v", took)
		}
		if _, ok := errors.AsType[redis.Error](err); !ok {
			t.Errorf("%v hides the server's error", err)
		}
		kind(t, "AwaitRelease", b.AwaitRelease(t.Context(), "a", "1"), backend.Denied)
	}
	win(t, open(t, connect(t, server), nil), request("a", long))
}

func TestBackend_RestrictedUser_NeedsOnlyWhatIsDocumented(t *testing.T) {
	_, admin := start(t)
	b := open(t, as(t, admin, "elects", acl), nil)
	lease := win(t, b, request("a", long))
	holder(t, b, "a")
	renew(t, lease, long)
	release(t, lease, 0) // though it must not publish
	if !inspect(t, b, "a").Free() {
		t.Error("not free")
	}
	if err := b.Abandon(t.Context(), request("b", long)); err != nil {
		t.Error(err)
	}
	kind(t, "AwaitRelease", b.AwaitRelease(t.Context(), "a", "1"), backend.Denied)
	warnings, err := b.Advise(t.Context())
	if err != nil || len(warnings) != 1 {
		t.Errorf("Advise: %q, %v, want one that says it could not look", warnings, err)
	}
}

func TestBackend_RestrictedUser_NeedsLittleMoreForGroupsRecordsAndLists(t *testing.T) {
	_, admin := start(t)
	b := open(t, as(t, admin, "groups", acl+groups), nil)
	slot := winSlot(t, b, request("a", long), 3)
	if err := b.Break(t.Context(), backend.SlotKey("a", slot.slot), slot.Fence()); err != nil {
		t.Error(err)
	}
	release(t, win(t, b, request(backend.SlotKey("a", 1), long)), 0)
	if err := b.Abandon(t.Context(), request(backend.SlotKey("a", 0), long)); err != nil {
		t.Error(err)
	}
	win(t, b, request("a", long))
	_, _, err := b.GetRecords(t.Context(), "a!x/")
	kind(t, "GetRecords", err, backend.Denied)
	for _, err := range b.List(t.Context(), "", false) {
		kind(t, "List", err, backend.Denied)
	}

	b = open(t, as(t, admin, "keeps", acl+keeps), nil)
	for _, ttl := range []time.Duration{0, brief} {
		r := putRecord(t, b, backend.Record{Key: "a!x/1", TTL: ttl})
		eventually(t, "the record is as it should be", func() bool { return len(records(t, b, "a!x/")) == 1 == (ttl == 0) })
		if err := b.DeleteRecord(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	b = open(t, as(t, admin, "lists", acl+lists), nil)
	listed(t, b, "", false, "a")
}

func TestBackend_RestrictedUser_WaitsAndIsWarned(t *testing.T) {
	_, admin := start(t)
	b := open(t, as(t, admin, "waits", acl+waits+advised), nil)
	lease := win(t, b, request("a", long))
	wait := await(t.Context(), b, "a", holder(t, b, "a").Seen)
	waiting(t, wait)
	release(t, lease, 0)
	woken(t, "the release", wait)
	if warnings, err := b.Advise(t.Context()); err != nil || len(warnings) > 0 {
		t.Errorf("Advise: %q, %v", warnings, err)
	}
}

func TestBackend_RestrictedUser_WaitsInACluster(t *testing.T) {
	_, server := startCluster(t)
	permit(t, connect(t, server), "waits", acl+shards)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{server.Addr()}, Username: "waits", Password: "secret",
	})
	t.Cleanup(func() { _ = client.Close() })
	b := open(t, client, nil)
	lease := win(t, b, request("a", long))
	wait := await(t.Context(), b, "a", holder(t, b, "a").Seen)
	waiting(t, wait)
	release(t, lease, 0)
	woken(t, "the release", wait)
}

func TestBackend_MissingPermission_IsDenied(t *testing.T) {
	_, admin := start(t)
	for name, rules := range map[string]string{
		"no scripts":  "~leader:* -@all",
		"no writes":   acl + " -hset",
		"no clock":    acl + " -time",
		"other keys":  "resetkeys ~other:* +@all",
		"user is off": acl + " off",
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, as(t, admin, "restricted", rules), nil)
			_, err := b.TryAcquire(t.Context(), request("a", long))
			kind(t, "TryAcquire", err, backend.Denied)
		})
	}
}

func TestBackend_DeadServer_IsUnavailable(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	b := open(t, connectTo(t, addr, ""), nil)
	_, err = b.TryAcquire(t.Context(), request("a", long))
	kind(t, "TryAcquire", err, backend.Unavailable)
	_, err = b.Inspect(t.Context(), "a")
	kind(t, "Inspect", err, backend.Unavailable)
	_, err = b.Advise(t.Context())
	kind(t, "Advise", err, backend.Unavailable)
	kind(t, "AwaitRelease", b.AwaitRelease(t.Context(), "a", "1"), backend.Unavailable)
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	if _, err = b.TryAcquire(ctx, request("a", long)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("TryAcquire with an ending context: %v", err)
	}
}

func TestBackend_FullServer_IsUnavailable(t *testing.T) {
	b, client := start(t)
	lease := win(t, b, request("a", long))
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := b.TryAcquire(t.Context(), request("b", long))
	kind(t, "TryAcquire", err, backend.Unavailable)
	kind(t, "Renew", lease.Renew(t.Context(), 2*long), backend.Unavailable)
	kind(t, "Release", lease.Release(t.Context(), 0), backend.Unavailable)
	inspect(t, b, "a")
}

func TestBackend_ClosedClient_IsMisconfigured(t *testing.T) {
	b, client := start(t)
	_ = client.Close()
	_, err := b.TryAcquire(t.Context(), request("a", long))
	kind(t, "TryAcquire", err, backend.Misconfigured)
}

func TestBackend_Advise_WarnsOfWhatMayCostALease(t *testing.T) {
	b, client := start(t)
	advise := func(want int) {
		t.Helper()
		warnings, err := b.Advise(t.Context())
		if err != nil || len(warnings) != want {
			t.Errorf("warnings %q, %v, want %d", warnings, err, want)
		}
	}
	set := func(name, value string) {
		t.Helper()
		if err := client.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	advise(0)
	set("maxmemory-policy", "volatile-lru")
	advise(0) // no limit, no eviction
	set("maxmemory", "1gb")
	advise(1)
	set("appendonly", "no")
	advise(2)
	set("maxmemory-policy", "noeviction")
	advise(1)
}
