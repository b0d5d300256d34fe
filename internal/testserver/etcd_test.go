package testserver

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// ownEtcd is Etcd, whatever the environment says about a server of the user's.
func ownEtcd(t *testing.T, opts ...EtcdOption) *Server {
	t.Helper()
	t.Setenv(EtcdURLEnv, "")
	return Etcd(t, opts...)
}

// etcdPut stores "v" under "k", in base64.
func etcdPut(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	body := map[string]string{"key": "aw==", "value": "dg=="}
	if err := etcdCall(ctx, http.MethodPost, s.Addr(), "/v3/kv/put", body, new(struct{})); err != nil {
		t.Fatal(err)
	}
}

func etcdHas(t *testing.T, s *Server) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var answer struct{ Kvs []struct{ Value string } }
	if err := etcdCall(ctx, http.MethodPost, s.Addr(), "/v3/kv/range", map[string]string{"key": "aw=="}, &answer); err != nil {
		t.Fatal(err)
	}
	return len(answer.Kvs) == 1 && answer.Kvs[0].Value == "dg=="
}

func TestEtcd_StartsEmptyInBothVersions(t *testing.T) {
	for version, opts := range map[string][]EtcdOption{"3.4.": nil, "3.7.3": {EtcdNew()}} {
		s := ownEtcd(t, opts...)
		if etcdHas(t, s) {
			t.Error("not empty")
		}
		var answer struct {
			Server string `json:"etcdserver"`
		}
		if err := etcdCall(t.Context(), http.MethodGet, s.Addr(), "/version", nil, &answer); err != nil {
			t.Fatal(err)
		}
		if version == "3.7.3" && answer.Server != version {
			t.Errorf("version %s, want %s", answer.Server, version)
		}
		if !s.Owned() || s.URL() != "http://"+s.Addr() {
			t.Errorf("owned %t, URL %s", s.Owned(), s.URL())
		}
	}
}

func TestEtcd_Restart_KeepsDataAndAddress(t *testing.T) {
	s := ownEtcd(t)
	etcdPut(t, s)
	addr := s.Addr()
	s.Kill9(t)
	s.Kill9(t) // no error
	s.Restart(t)
	if !etcdHas(t, s) || s.Addr() != addr {
		t.Errorf("has the key: %t, at %s, want true, at %s", etcdHas(t, s), s.Addr(), addr)
	}
}

func TestEtcd_Stop_AnswersNothingUntilCont(t *testing.T) {
	s := ownEtcd(t)
	etcdPut(t, s)
	s.Stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := etcdStatusOf(ctx, s.Addr()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stopped server: %v", err)
	}
	s.Cont(t)
	if !etcdHas(t, s) {
		t.Error("the key is gone")
	}
}

func TestEtcd_TakesTheServerOfTheEnvironment(t *testing.T) {
	s := ownEtcd(t)
	t.Setenv(EtcdURLEnv, "http://root:secret@"+s.Addr())
	given := Etcd(t)
	if given.Owned() || given.Addr() != s.Addr() || given.Password() != "secret" {
		t.Errorf("got %+v", given)
	}
	for name, start := range map[string]func(t TB){
		"options": func(t TB) { Etcd(t, EtcdFlags("--auto-compaction-retention=1")) },
		"three":   func(t TB) { EtcdThree(t) },
	} {
		if v := judge(t, func(t TB) { start(t) }); v.skipped == "" {
			t.Errorf("%s: not skipped", name)
		}
	}
	t.Setenv(EtcdURLEnv, "localhost")
	if v := judge(t, func(t TB) { Etcd(t) }); !strings.Contains(v.failed, EtcdURLEnv) {
		t.Errorf("a URL without a port: %+v", v)
	}
}

func TestEtcdThree_ServesWithOneNodeDeadAndMovesItsLeader(t *testing.T) {
	t.Setenv(EtcdURLEnv, "")
	c := EtcdThree(t, EtcdNew())
	etcdPut(t, c.Nodes()[0])

	first := c.Leader(t)
	first.Kill9(t)
	second := c.Leader(t)
	if second == first {
		t.Fatal("a dead node leads")
	}
	if !etcdHas(t, second) {
		t.Error("the key is gone")
	}
	first.Restart(t)
	if !etcdHas(t, first) {
		t.Error("the key is gone on the node that came back")
	}

	before := c.Leader(t)
	third := c.MoveLeader(t)
	if third == before || c.Leader(t) != third {
		t.Errorf("%s leads, want %s instead of %s", c.Leader(t).Addr(), third.Addr(), before.Addr())
	}

	third.Stop(t)
	if c.Leader(t) == third {
		t.Error("a stopped node leads")
	}
	third.Cont(t)
	if n := strings.Count(c.URL(), "http://"); n != 3 {
		t.Errorf("%d URLs in %s", n, c.URL())
	}
}
