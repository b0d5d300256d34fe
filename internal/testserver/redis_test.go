package testserver

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

const patience = 30 * time.Second

// ownRedis is Redis, whatever the environment says about a server of the user's.
func ownRedis(t *testing.T, opts ...RedisOption) *Server {
	t.Helper()
	t.Setenv(RedisURLEnv, "")
	return Redis(t, opts...)
}

func dial(t *testing.T, s *Server) *respConn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	conn, err := dialRedis(ctx, s.Addr(), "", s.Password())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func expect(t *testing.T, c *respConn, want string, cmd ...string) {
	t.Helper()
	if got, err := c.do(cmd...); err != nil || got != want {
		t.Fatalf("%q = %q, %v, want %q", cmd, got, err, want)
	}
}

func TestRedis_StartsEmptyWithAnAppendOnlyFile(t *testing.T) {
	s := ownRedis(t)
	c := dial(t, s)
	expect(t, c, "0", "DBSIZE")
	info, err := c.do("INFO", "persistence")
	if err != nil || !strings.Contains(info, "aof_enabled:1") {
		t.Errorf("INFO = %q, %v", info, err)
	}
	if !s.Owned() || s.URL() != "redis://"+s.Addr() {
		t.Errorf("owned %t, URL %s", s.Owned(), s.URL())
	}
}

func TestRedis_Restart_KeepsDataAndAddress(t *testing.T) {
	s := ownRedis(t)
	expect(t, dial(t, s), "OK", "SET", "k", "v\r\nw")
	addr := s.Addr()

	s.Kill9(t)
	if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr); err == nil {
		_ = conn.Close()
		t.Fatal("a killed server accepts connections")
	}
	s.Kill9(t) // no error
	s.Restart(t)
	expect(t, dial(t, s), "v\r\nw", "GET", "k")

	s.Restart(t) // while it runs
	expect(t, dial(t, s), "v\r\nw", "GET", "k")
	if s.Addr() != addr {
		t.Errorf("address %s became %s", addr, s.Addr())
	}
}

func TestRedis_Stop_AnswersNothingUntilCont(t *testing.T) {
	s := ownRedis(t)
	c, hasty := dial(t, s), dial(t, s)

	s.Stop(t)
	if err := hasty.conn.SetDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if got, err := hasty.do("PING"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stopped server: %q, %v", got, err)
	}
	s.Cont(t)
	expect(t, c, "PONG", "PING")
}

func TestRedis_Stop_DoesNotHinderKill9(t *testing.T) {
	s := ownRedis(t)
	s.Stop(t)
	s.Restart(t)
	expect(t, dial(t, s), "PONG", "PING")
}

func TestRedis_Stop_FailsOnADeadServer(t *testing.T) {
	s := ownRedis(t)
	s.Kill9(t)
	if v := judge(t, s.Stop); v.failed == "" {
		t.Error("a dead server was stopped")
	}
}

func TestRedis_Password_IsAskedFor(t *testing.T) {
	const password = `p" \ä`
	s := ownRedis(t, RedisPassword(password))
	expect(t, dial(t, s), "PONG", "PING")
	if conn, err := dialRedis(t.Context(), s.Addr(), "", ""); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without the password: %v, %v", conn, err)
	}

	t.Setenv(RedisURLEnv, s.URL())
	if again := Redis(t); again.Password() != password {
		t.Errorf("the URL %s gave password %q", s.URL(), again.Password())
	}
}

func TestRedis_Cluster_ServesEverySlotAlsoAfterRestart(t *testing.T) {
	s := ownRedis(t, RedisCluster())
	for range 2 {
		c := dial(t, s)
		info, err := c.do("CLUSTER", "INFO")
		if err != nil || !strings.Contains(info, "cluster_slots_ok:16384") {
			t.Errorf("CLUSTER INFO = %q, %v", info, err)
		}
		expect(t, c, "OK", "SET", "{a}b", "v")
		s.Restart(t)
	}
}

func TestRedis_Config_Wins(t *testing.T) {
	s := ownRedis(t, RedisConfig("appendonly no", "maxmemory 50mb"))
	info, err := dial(t, s).do("INFO")
	if err != nil || !strings.Contains(info, "aof_enabled:0") || !strings.Contains(info, "maxmemory:52428800") {
		t.Errorf("INFO = %q, %v", info, err)
	}
}

func TestRedis_Config_ThatIsWrongFailsWithTheServersWords(t *testing.T) {
	t.Setenv(RedisURLEnv, "")
	v := judge(t, func(t TB) { Redis(t, RedisConfig("nonsense yes")) })
	if v.skipped != "" {
		t.Skip(v.skipped)
	}
	if !strings.Contains(v.failed, errEnded.Error()) || !strings.Contains(v.failed, "nonsense") {
		t.Errorf("failed with %q", v.failed)
	}
}

func TestRedis_TakesTheServerInTheEnvironment(t *testing.T) {
	own := ownRedis(t)
	t.Setenv(RedisURLEnv, own.URL())
	s := Redis(t)
	if s.Owned() || s.Addr() != own.Addr() || s.URL() != own.URL() {
		t.Errorf("owned %t, address %s, URL %s", s.Owned(), s.Addr(), s.URL())
	}
	for name, f := range map[string]func(TB){
		"Kill9": s.Kill9, "Restart": s.Restart, "Stop": s.Stop, "Cont": s.Cont,
		"options": func(t TB) { Redis(t, RedisCluster()) },
	} {
		if v := judge(t, f); v.skipped == "" || v.failed != "" {
			t.Errorf("%s: skipped %q, failed %q", name, v.skipped, v.failed)
		}
	}
	expect(t, dial(t, s), "PONG", "PING")
}

func TestRedis_FailsOnAServerInTheEnvironmentThatCannotBeUsed(t *testing.T) {
	own := ownRedis(t)
	own.Kill9(t)
	for _, given := range []string{own.URL(), own.Addr(), "redis://" + host, "rediss://" + own.Addr(), "redis://%"} {
		t.Setenv(RedisURLEnv, given)
		if v := judge(t, func(t TB) { Redis(t) }); v.failed == "" {
			t.Errorf("%s was accepted", given)
		}
	}
}

func TestLaunch_TriesAnotherPortWhenTheFirstIsTaken(t *testing.T) {
	first := ownRedis(t)
	_, taken, err := net.SplitHostPort(first.Addr())
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	p, addr, err := launch(t.Context(), func(port int) (*process, error) {
		var c redisConfig
		if tries++; tries == 1 {
			c.lines = []string{"port " + taken}
		}
		return c.prepare(t.Context(), first.process.path, t.TempDir(), port)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	if tries != 2 || addr == first.Addr() {
		t.Errorf("%d tries, address %s", tries, addr)
	}
}

func TestRedis_IsNotMistakenForAnotherOnItsPort(t *testing.T) {
	s := ownRedis(t)
	c := redisConfig{}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.ready(ctx, s.Addr(), s.process.child.process.Pid); err != nil {
		t.Error(err)
	}
	if err := c.ready(ctx, s.Addr(), os.Getpid()); err == nil {
		t.Error("another process was taken for the server")
	}
}

func TestRun_StartsAServerForAProgram(t *testing.T) {
	t.Setenv(RedisURLEnv, "")
	ownRedis(t) // or skip
	var s *Server
	err := Run(t.Context(), func(tb TB) {
		s = Redis(tb)
		expect(t, dial(t, s), "PONG", "PING")
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.process.running() {
		t.Error("the server outlived Run")
	}
	if _, err := os.Stat(s.process.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data folder: %v", err)
	}
}
