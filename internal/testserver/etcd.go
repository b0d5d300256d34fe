package testserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// EtcdURLEnv is the environment variable with the URL, http://[user:password@]host:port, of the etcd that [Etcd] returns
// instead of starting one. It is not emptied.
const EtcdURLEnv = "LEADER_ETCD_URL"

const (
	etcdMissing = `etcd is not installed: "make servers" does it on Debian and Ubuntu ` +
		`(apt-get install --no-install-recommends etcd-server), "brew install etcd" on macOS; or set ` + EtcdURLEnv
	newEtcdMissing = `etcd 3.7 is not built: "make servers" does it`

	// newEtcd is the folder of the version that is built, see internal/tools/servers/etcd.sh.
	newEtcd = "etcd-3.7.3"
)

// An EtcdOption changes what [Etcd] and [EtcdThree] start.
type EtcdOption func(*etcdConfig)

type etcdConfig struct {
	built bool
	flags []string
}

// EtcdNew takes version 3.7.3, which "make servers" builds, instead of the installed one.
func EtcdNew() EtcdOption { return func(c *etcdConfig) { c.built = true } }

// EtcdFlags adds flags to the command line, after ours, so that they win.
func EtcdFlags(flags ...string) EtcdOption {
	return func(c *etcdConfig) { c.flags = append(c.flags, flags...) }
}

// Etcd starts an empty etcd of one node that ends with the test. Without the program the test is skipped, see
// [RequireEnv]. If [EtcdURLEnv] names a server it is used, and a test that asks for options is skipped.
func Etcd(t TB, opts ...EtcdOption) *Server {
	t.Helper()
	if given := os.Getenv(EtcdURLEnv); given != "" {
		if len(opts) > 0 {
			t.Skipf("this needs an etcd of a version or with flags of its own, and %s is set", EtcdURLEnv)
		}
		return givenEtcd(t, given)
	}
	c := newEtcdConfig(opts)
	program := c.program(t)
	dir := t.TempDir()
	p, addr, err := launch(t.Context(), func(port int) (*process, error) {
		peer, err := freePort(t.Context())
		if err != nil {
			return nil, err
		}
		n := etcdNode{name: "n0", client: port, peer: peer}
		return c.prepare(program, dir, n, []etcdNode{n})
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(p.kill)
	return &Server{addr: addr, url: "http://" + addr, process: p}
}

func newEtcdConfig(opts []EtcdOption) *etcdConfig {
	c := new(etcdConfig)
	for _, o := range opts {
		o(c)
	}
	return c
}

func givenEtcd(t TB, given string) *Server {
	t.Helper()
	u, err := url.Parse(given)
	if err != nil || u.Scheme != "http" || u.Port() == "" {
		t.Fatalf("%s: want http://[user:password@]host:port", EtcdURLEnv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), lookTimeout)
	defer cancel()
	if err := etcdHealthy(ctx, u.Host); err != nil {
		t.Fatalf("%s: %v", EtcdURLEnv, err)
	}
	password, _ := u.User.Password()
	return &Server{addr: u.Host, url: given, password: password}
}

// program is the path of the etcd that was asked for.
func (c *etcdConfig) program(t TB) string {
	t.Helper()
	if c.built {
		path := built(newEtcd, "etcd")
		if _, err := os.Stat(path); err != nil {
			missing(t, "etcd", newEtcdMissing)
		}
		return path
	}
	path, err := exec.LookPath("etcd")
	if err != nil {
		missing(t, "etcd", etcdMissing)
	}
	return path
}

// etcdNode is a member of a cluster, by its name and ports.
type etcdNode struct {
	name         string
	client, peer int
}

func (n etcdNode) clientURL() string { return "http://" + address(n.client) }

func (n etcdNode) peerURL() string { return "http://" + address(n.peer) }

// prepare configures a member with a data folder below dir.
func (c *etcdConfig) prepare(program, dir string, n etcdNode, all []etcdNode) (*process, error) {
	// A member that took a port too late may have left half a data folder of another cluster.
	data, err := os.MkdirTemp(dir, n.name+"-")
	if err != nil {
		return nil, err
	}
	var members []string
	for _, m := range all {
		members = append(members, m.name+"="+m.peerURL())
	}
	args := []string{
		"--name", n.name,
		"--data-dir", filepath.Join(data, "data"),
		"--listen-client-urls", n.clientURL(),
		"--advertise-client-urls", n.clientURL(),
		"--listen-peer-urls", n.peerURL(),
		"--initial-advertise-peer-urls", n.peerURL(),
		"--initial-cluster", strings.Join(members, ","),
	}
	ready := func(ctx context.Context, _ int) error { return etcdReady(ctx, address(n.client), data) }
	return &process{name: "etcd", path: program, args: append(args, c.flags...), dir: data, ready: ready}, nil
}

// etcdReady looks whether the etcd at addr is the one with this data folder and serves requests.
func etcdReady(ctx context.Context, addr, data string) error {
	var vars struct{ Cmdline []string }
	if err := etcdCall(ctx, http.MethodGet, addr, "/debug/vars", nil, &vars); err != nil {
		return err
	}
	if !strings.Contains(strings.Join(vars.Cmdline, " "), data) {
		return errors.New("another etcd has the port")
	}
	return etcdHealthy(ctx, addr)
}

func etcdHealthy(ctx context.Context, addr string) error {
	var answer struct{ Health, Reason string }
	if err := etcdCall(ctx, http.MethodGet, addr, "/health", nil, &answer); err != nil {
		return err
	}
	if answer.Health != "true" {
		return fmt.Errorf("etcd is not healthy: %s", answer.Reason)
	}
	return nil
}
