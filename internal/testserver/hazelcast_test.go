package testserver

import (
	"net"
	"strings"
	"testing"
)

// ownHazelcast starts a Hazelcast, or skips.
func ownHazelcast(t *testing.T, opts ...HazelcastOption) *Server {
	t.Helper()
	t.Setenv(HazelcastAddrEnv, "")
	return Hazelcast(t, opts...)
}

func TestHazelcast_ServesAloneAndComesBack(t *testing.T) {
	s := ownHazelcast(t)
	answers := func() bool {
		health, err := askHazelcast(t.Context(), s.Addr())
		return err == nil && health.NodeState == "ACTIVE" && health.ClusterSize == 1
	}
	if !answers() {
		t.Error("a started member does not answer")
	}
	s.Kill9(t)
	if answers() {
		t.Error("a killed member answers")
	}
	s.Restart(t)
	if !answers() {
		t.Error("a restarted member does not answer")
	}
}

func TestHazelcast_StartsWithAConfigurationOfTheTest(t *testing.T) {
	v := judge(t, func(t TB) {
		Hazelcast(t, HazelcastConfig("map:", "  odd:", "    backup-count: many"))
	})
	if !strings.Contains(v.failed, "backup-count") && !strings.Contains(v.failed, "many") && v.skipped == "" {
		t.Errorf("with nonsense it failed with %q", v.failed)
	}
	ownHazelcast(t, HazelcastConfig("map:", "  odd:", "    backup-count: 2"))
}

func TestHazelcast_UsesTheOneThatIsNamed(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv(HazelcastAddrEnv, l.Addr().String())
	if s := Hazelcast(t); s.Owned() || s.Addr() != l.Addr().String() {
		t.Errorf("started %s", s.Addr())
	}
	for what, start := range map[string]func(t TB){
		"with options": func(t TB) { Hazelcast(t, HazelcastConfig("jet:")) },
		"two members":  func(t TB) { HazelcastTwo(t) },
	} {
		v := judge(t, start)
		if !strings.Contains(v.skipped, HazelcastAddrEnv) {
			t.Errorf("%s: skipped %q, failed %q", what, v.skipped, v.failed)
		}
	}
}

func TestHazelcast_IsMissing_WithoutTheProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(HazelcastAddrEnv, "")
	t.Setenv(RequireEnv, "hazelcast")
	v := judge(t, func(t TB) { Hazelcast(t) })
	if !strings.Contains(v.failed, "apt-get install") {
		t.Errorf("failed with %q", v.failed)
	}
}

func TestHazelcastTwo_LosesOneAndHasItBack(t *testing.T) {
	t.Setenv(HazelcastAddrEnv, "")
	h := HazelcastTwo(t)
	if len(h.Members()) != 2 || len(h.Addrs()) != 2 || h.Addrs()[0] == h.Addrs()[1] {
		t.Fatalf("members at %v", h.Addrs())
	}
	for i, m := range h.Members() {
		h.AwaitSize(t, i, 2)
		m.Kill9(t)
		h.AwaitSize(t, 1-i, 1)
		m.Restart(t)
		h.AwaitSize(t, 1-i, 2)
	}
}

// Members that tell another address are reached there.
func TestHazelcastTwo_ReachEachOtherByTheAddressesGiven(t *testing.T) {
	t.Setenv(HazelcastAddrEnv, "")
	asked := map[string]bool{}
	h := HazelcastTwo(t, HazelcastVia(func(_ TB, addr string) string {
		asked[addr] = true
		_, port, _ := net.SplitHostPort(addr)
		return net.JoinHostPort("localhost", port)
	}))
	for i, addr := range h.Addrs() {
		if !asked[addr] {
			t.Errorf("it was not asked how to reach %s", addr)
		}
		h.AwaitSize(t, i, 2)
	}
}
