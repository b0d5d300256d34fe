package testserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// ConsulAddrEnv is the environment variable with the address, [http://[:token@]]host:port, of the Consul agent that
// [Consul] returns instead of starting one. Keys that are there stay.
const ConsulAddrEnv = "LEADER_CONSUL_ADDR"

const (
	consulFolder  = "consul-1.15.4" // as in internal/tools/servers/consul.sh
	consulMissing = `Consul is not built: "make servers" does it; or set ` + ConsulAddrEnv
)

// A ConsulOption changes what [Consul] starts.
type ConsulOption func(*consulConfig)

type consulConfig struct {
	token string
	lines []string
}

// ConsulACL makes the server deny whatever no token allows. The token given is a UUID that may do everything; it is the
// server's Password.
func ConsulACL(token string) ConsulOption {
	return func(c *consulConfig) { c.token = token }
}

// ConsulConfig adds lines of HCL to the configuration, in a file of their own that wins over ours.
func ConsulConfig(lines ...string) ConsulOption {
	return func(c *consulConfig) { c.lines = append(c.lines, lines...) }
}

// Consul starts an empty Consul server that ends with the test: one server that is its own quorum, with a log on disk,
// so that a restart forgets nothing. It takes some seconds to elect itself, at the start and after a restart. If it is
// not built the test is skipped, see [RequireEnv]. If [ConsulAddrEnv] names an agent it is used, and a test that asks
// for options is skipped.
func Consul(t TB, opts ...ConsulOption) *Server {
	t.Helper()
	if given := os.Getenv(ConsulAddrEnv); given != "" {
		if len(opts) > 0 {
			t.Skipf("this needs a Consul with a configuration of its own, and %s is set", ConsulAddrEnv)
		}
		return givenConsul(t, given)
	}
	program, err := exec.LookPath(built(consulFolder, "consul"))
	if err != nil {
		missing(t, "consul", consulMissing)
	}
	var c consulConfig
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
	return &Server{addr: addr, url: consulURL(addr, c.token), password: c.token, process: p}
}

func consulURL(addr, token string) string {
	u := url.URL{Scheme: "http", Host: addr}
	if token != "" {
		u.User = url.UserPassword("", token)
	}
	return u.String()
}

func givenConsul(t TB, given string) *Server {
	t.Helper()
	if !strings.Contains(given, "://") {
		given = "http://" + given
	}
	u, err := url.Parse(given)
	if err != nil || u.Scheme != "http" || u.Port() == "" {
		t.Fatalf("%s: want [http://[:token@]]host:port", ConsulAddrEnv)
	}
	token, _ := u.User.Password()
	ctx, cancel := context.WithTimeout(t.Context(), lookTimeout)
	defer cancel()
	c := consulConfig{token: token}
	var leader string
	if err := c.get(ctx, u.Host, "/v1/status/leader", &leader); err != nil || leader == "" {
		t.Fatalf("%s: leader %q, %v", ConsulAddrEnv, leader, err)
	}
	return &Server{addr: u.Host, url: consulURL(u.Host, token), password: token}
}

// prepare configures a Consul in dir that listens on port.
func (c *consulConfig) prepare(ctx context.Context, program, dir string, port int) (*process, error) {
	// A server that took a port too late may have left half a data folder with other addresses.
	data, err := os.MkdirTemp(dir, "data-")
	if err != nil {
		return nil, err
	}
	node := "test-" + strings.ToLower(rand.Text())
	config, err := c.file(ctx, node, port)
	if err != nil {
		return nil, err
	}
	files := map[string]string{"config.hcl": config, "wins.hcl": strings.Join(c.lines, "\n")}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	args := []string{
		"agent",
		"-config-file", filepath.Join(dir, "config.hcl"),
		"-config-file", filepath.Join(dir, "wins.hcl"),
		"-data-dir", data,
	}
	ready := func(ctx context.Context, _ int) error { return c.ready(ctx, address(port), node) }
	return &process{name: "consul", path: program, args: args, dir: dir, ready: ready}, nil
}

// file is the configuration of a server that needs nobody else. What it could do beside keys and sessions is off.
func (c *consulConfig) file(ctx context.Context, node string, port int) (string, error) {
	var others [2]int
	for i := range others {
		var err error
		if others[i], err = freePort(ctx); err != nil {
			return "", err
		}
	}
	lines := []string{
		"server = true",
		"bootstrap_expect = 1",
		"node_name = " + strconv.Quote(node),
		"bind_addr = " + strconv.Quote(host),
		"client_addr = " + strconv.Quote(host),
		"performance { raft_multiplier = 1 }",
		// All tests of a run are one client to the server.
		"limits { http_max_conns_per_client = 10000 }",
		"connect { enabled = false }",
		"peering { enabled = false }",
		"disable_update_check = true",
		`log_level = "warn"`,
		fmt.Sprintf("ports { http = %d, server = %d, serf_lan = %d, serf_wan = -1, dns = -1, grpc = -1, grpc_tls = -1 }",
			port, others[0], others[1]),
	}
	if c.token != "" {
		lines = append(lines, `acl { enabled = true, default_policy = "deny", tokens { initial_management = `+
			strconv.Quote(c.token)+`, agent = `+strconv.Quote(c.token)+` } }`)
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// ready looks whether the Consul at addr is the node of that name, leads, and keeps sessions, which need the node's
// registration.
func (c *consulConfig) ready(ctx context.Context, addr, node string) error {
	var checks []struct{ CheckID, Status string }
	if err := c.get(ctx, addr, "/v1/health/node/"+node+"?consistent", &checks); err != nil {
		return err
	}
	for _, check := range checks {
		if check.CheckID == "serfHealth" && check.Status == "passing" {
			return nil
		}
	}
	return errors.New("the node is not registered, or another Consul has the port")
}

func (c *consulConfig) get(ctx context.Context, addr, path string, answer any) error {
	address := "http://" + addr + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody) //nolint:gosec // The test's server.
	if err != nil {
		return err
	}
	if c.token != "" {
		req.Header.Set("X-Consul-Token", c.token)
	}
	// A connection that is kept would be one to a server that is gone after a restart.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req) //nolint:gosec // A server of the test's.
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}
