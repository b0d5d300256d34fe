package testserver

import (
	"net"
	"strings"
	"testing"
)

// ownZooKeeper starts a ZooKeeper, or skips.
func ownZooKeeper(t *testing.T) *Server {
	t.Helper()
	t.Setenv(ZooKeeperAddrEnv, "")
	return ZooKeeper(t)
}

func asked(t *testing.T, s *Server, command string) string {
	t.Helper()
	answer, err := zooKeeperAsk(t.Context(), s.Addr(), command)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return answer
}

func TestZooKeeper_ServesAloneAndComesBack(t *testing.T) {
	s := ownZooKeeper(t)
	if mode := asked(t, s, "srvr"); !strings.Contains(mode, "Mode: standalone") {
		t.Errorf("srvr answers %q", mode)
	}
	s.Kill9(t)
	if _, err := zooKeeperAsk(t.Context(), s.Addr(), "srvr"); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart(t)
	asked(t, s, "srvr")
	s.Stop(t)
	if _, err := zooKeeperAsk(t.Context(), s.Addr(), "srvr"); err == nil {
		t.Error("a stopped server answers")
	}
	s.Cont(t)
	if err := zooKeeperReady(t.Context(), s.Addr(), s.process.dir); err != nil {
		t.Error(err)
	}
}

func TestZooKeeper_IsNotMistakenForAnotherOnItsPort(t *testing.T) {
	s := ownZooKeeper(t)
	if err := zooKeeperReady(t.Context(), s.Addr(), t.TempDir()); err == nil {
		t.Error("another server was taken for the one")
	}
}

func TestZooKeeper_TakesLinesOfItsConfiguration(t *testing.T) {
	t.Setenv(ZooKeeperAddrEnv, "")
	s := ZooKeeper(t, ZooKeeperConfig("maxSessionTimeout=7000"))
	if conf := asked(t, s, "conf"); !strings.Contains(conf, "maxSessionTimeout=7000\n") {
		t.Errorf("conf answers %q", conf)
	}
}

func TestZooKeeper_UsesTheOneThatIsNamed(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv(ZooKeeperAddrEnv, l.Addr().String())
	if s := ZooKeeper(t); s.Owned() || s.Addr() != l.Addr().String() {
		t.Errorf("started %s", s.Addr())
	}
	v := judge(t, func(t TB) { ZooKeeper(t, ZooKeeperConfig("tickTime=1000")) })
	if !strings.Contains(v.skipped, ZooKeeperAddrEnv) {
		t.Errorf("with options: skipped %q, failed %q", v.skipped, v.failed)
	}
	v = judge(t, func(t TB) { ZooKeeperThree(t) })
	if !strings.Contains(v.skipped, ZooKeeperAddrEnv) {
		t.Errorf("three nodes: skipped %q, failed %q", v.skipped, v.failed)
	}
}

func TestZooKeeper_IsMissing_WithoutTheProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(ZooKeeperAddrEnv, "")
	t.Setenv(RequireEnv, "zookeeper")
	v := judge(t, func(t TB) { ZooKeeper(t) })
	if !strings.Contains(v.failed, "apt-get install") {
		t.Errorf("failed with %q", v.failed)
	}
}

func TestZooKeeperThree_ElectsAnotherLeader(t *testing.T) {
	t.Setenv(ZooKeeperAddrEnv, "")
	z := ZooKeeperThree(t)
	if len(z.Nodes()) != 3 || len(z.Addrs()) != 3 {
		t.Fatalf("%d nodes", len(z.Nodes()))
	}
	first := z.Leader(t)
	first.Kill9(t)
	second := z.Leader(t)
	if second == first {
		t.Error("a killed node leads")
	}
	first.Restart(t)
	if mode := asked(t, first, "srvr"); !strings.Contains(mode, "Mode: follower") {
		t.Errorf("after its restart the first leader answers %q", mode)
	}
}
