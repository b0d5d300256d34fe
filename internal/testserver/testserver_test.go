package testserver

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
)

// verdict is a TB that notes how a test would end.
type verdict struct {
	*testing.T
	skipped, failed string
}

// judge runs f as if it were a test.
func judge(t *testing.T, f func(t TB)) *verdict {
	t.Helper()
	v := &verdict{T: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f(v)
	}()
	<-ended
	return v
}

func (v *verdict) Skipf(format string, args ...any) {
	v.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (v *verdict) Fatalf(format string, args ...any) {
	v.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestRequired_ReadsAListOfNames(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]bool{
		"": false, "all": true, "ALL": true, "redis": true, "Redis": true, "etcd, redis": true, "redis,": true,
		"etcd": false, "redis-cluster": false, "al": false, ",": false, "none": false,
	} {
		if got := required(list, "redis"); got != want {
			t.Errorf("required(%q, redis) = %t", list, got)
		}
	}
}

func TestMissing_SkipsWithTheReason(t *testing.T) {
	t.Setenv(RequireEnv, "etcd")
	v := judge(t, func(t TB) { missing(t, "redis", "install it") })
	if v.skipped != "install it" || v.failed != "" {
		t.Errorf("skipped %q, failed %q", v.skipped, v.failed)
	}
}

func TestMissing_FailsWhenRequired(t *testing.T) {
	t.Setenv(RequireEnv, "redis")
	v := judge(t, func(t TB) { missing(t, "redis", "install it") })
	if v.failed != "redis is required by LEADER_REQUIRE: install it" || v.skipped != "" {
		t.Errorf("skipped %q, failed %q", v.skipped, v.failed)
	}
}

func TestRedis_IsMissing_WithoutTheProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(RedisURLEnv, "")
	t.Setenv(RequireEnv, "all")
	v := judge(t, func(t TB) { Redis(t) })
	if !strings.Contains(v.failed, "apt-get install") {
		t.Errorf("failed with %q", v.failed)
	}
}

func TestFreePort_CanBeListenedOn(t *testing.T) {
	t.Parallel()
	port, err := freePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if port < firstPort || port >= lastPort {
		t.Errorf("port %d is out of range", port)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address(port))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestRun_CleansUpInReverseAndReturnsTheFailure(t *testing.T) {
	t.Parallel()
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "given")
	var order []string
	err := Run(ctx, func(tb TB) {
		if tb.Context().Value(key{}) != "given" {
			t.Error("the context is another one")
		}
		tb.Cleanup(func() { order = append(order, "first") })
		tb.Cleanup(func() { order = append(order, "second") })
		tb.Fatalf("no %s", "luck")
		t.Error("Fatalf returned")
	})
	if err == nil || err.Error() != "no luck" {
		t.Errorf("Run returned %v", err)
	}
	if got := strings.Join(order, " "); got != "second first" {
		t.Errorf("cleaned up %s", got)
	}
}
