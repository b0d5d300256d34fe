package testserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// RedisURLEnv is the environment variable with the URL, redis://[[user]:password@]host:port, of the Redis that [Redis]
// returns instead of starting one. It is not emptied.
const RedisURLEnv = "LEADER_REDIS_URL"

const redisMissing = `redis-server is not installed: "make servers" does it on Debian and Ubuntu ` +
	`(apt-get install --no-install-recommends redis-server), "brew install redis" on macOS; or set ` + RedisURLEnv

// A RedisOption changes what [Redis] starts.
type RedisOption func(*redisConfig)

type redisConfig struct {
	password string
	cluster  bool
	lines    []string
}

// RedisPassword makes clients authenticate.
func RedisPassword(password string) RedisOption {
	return func(c *redisConfig) { c.password = password }
}

// RedisCluster makes the server a cluster of one node that owns every slot. It takes 2 s to start, and Redis 7.
func RedisCluster() RedisOption { return func(c *redisConfig) { c.cluster = true } }

// RedisConfig adds lines to redis.conf, after ours, so that they win.
func RedisConfig(lines ...string) RedisOption {
	return func(c *redisConfig) { c.lines = append(c.lines, lines...) }
}

// Redis starts an empty Redis that ends with the test. It writes everything to an append-only file, and syncs it
// before it answers, so that a restart forgets nothing. Without redis-server the test is skipped, see [RequireEnv].
// If [RedisURLEnv] names a server it is used, and a test that asks for options is skipped.
func Redis(t TB, opts ...RedisOption) *Server {
	t.Helper()
	if given := os.Getenv(RedisURLEnv); given != "" {
		if len(opts) > 0 {
			t.Skipf("this needs a Redis with a configuration of its own, and %s is set", RedisURLEnv)
		}
		return givenRedis(t, given)
	}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		missing(t, "redis", redisMissing)
	}
	var c redisConfig
	for _, o := range opts {
		o(&c)
	}
	dir := t.TempDir()
	p, addr, err := launch(t.Context(), func(port int) (*process, error) {
		return c.prepare(t.Context(), program, dir, port)
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(p.kill)
	u := url.URL{Scheme: "redis", Host: addr}
	if c.password != "" {
		u.User = url.UserPassword("", c.password)
	}
	return &Server{addr: addr, url: u.String(), password: c.password, process: p}
}

func givenRedis(t TB, given string) *Server {
	t.Helper()
	u, err := url.Parse(given)
	if err != nil || u.Scheme != "redis" || u.Port() == "" {
		t.Fatalf("%s: want redis://[[user]:password@]host:port", RedisURLEnv)
	}
	password, _ := u.User.Password()
	s := &Server{addr: u.Host, url: given, password: password}
	ctx, cancel := context.WithTimeout(t.Context(), lookTimeout)
	defer cancel()
	conn, err := dialRedis(ctx, s.addr, u.User.Username(), password)
	if err != nil {
		t.Fatalf("%s: %v", RedisURLEnv, err)
	}
	_ = conn.Close() // It has answered.
	return s
}

// prepare configures a Redis in dir that listens on port.
func (c *redisConfig) prepare(ctx context.Context, program, dir string, port int) (*process, error) {
	conf, err := c.file(ctx, port)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "redis.conf")
	if err := os.WriteFile(name, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	ready := func(ctx context.Context, pid int) error { return c.ready(ctx, address(port), pid) }
	return &process{name: "redis", path: program, args: []string{name}, dir: dir, ready: ready}, nil
}

func (c *redisConfig) file(ctx context.Context, port int) (string, error) {
	lines := []string{
		"bind " + host,
		"port " + strconv.Itoa(port),
		"appendonly yes",
		"appendfsync always",
		// Snapshots and rewrites fork, and a child of the server would outlive a kill -9.
		`save ""`,
		"auto-aof-rewrite-percentage 0",
	}
	if c.password != "" {
		lines = append(lines, "requirepass "+strconv.Quote(c.password))
	}
	if c.cluster {
		bus, err := freePort(ctx)
		if err != nil {
			return "", err
		}
		lines = append(lines, "cluster-enabled yes", "cluster-announce-ip "+host, "cluster-port "+strconv.Itoa(bus))
	}
	return strings.Join(append(lines, c.lines...), "\n") + "\n", nil
}

// ready looks whether the Redis at addr is the process pid and serves every key.
func (c *redisConfig) ready(ctx context.Context, addr string, pid int) error {
	conn, err := dialRedis(ctx, addr, "", c.password)
	if err != nil {
		return err
	}
	defer conn.Close()
	info, err := conn.do("INFO", "server")
	if err != nil {
		return err
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
		return errors.New("another Redis has the port")
	}
	if c.cluster {
		return serveAllSlots(conn)
	}
	return nil
}

// serveAllSlots makes a new node own every slot, and is nil when the cluster has noticed.
func serveAllSlots(conn *respConn) error {
	info, err := conn.do("CLUSTER", "INFO")
	switch {
	case err != nil:
		return err
	case strings.Contains(info, "cluster_state:ok"):
		return nil
	case strings.Contains(info, "cluster_slots_assigned:0\r\n"):
		if _, err := conn.do("CLUSTER", "ADDSLOTSRANGE", "0", "16383"); err != nil {
			return err
		}
	}
	return errors.New("the cluster does not serve all slots yet")
}

// dialRedis connects to a Redis that answers a PING.
func dialRedis(ctx context.Context, addr, user, password string) (*respConn, error) {
	conn, err := dialRESP(ctx, addr)
	if err != nil {
		return nil, err
	}
	if password != "" {
		auth := []string{"AUTH", user, password}
		if user == "" {
			auth = []string{"AUTH", password}
		}
		_, err = conn.do(auth...)
	}
	if err == nil {
		_, err = conn.do("PING")
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}
