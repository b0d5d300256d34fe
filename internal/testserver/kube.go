package testserver

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
)

// KubeconfigEnv is the environment variable with the path of the kubeconfig of the cluster that [Kube] returns instead
// of starting one. Tests make namespaces in it and leave them.
const KubeconfigEnv = "LEADER_KUBECONFIG"

const kubeMissing = `kube-apiserver is not there: "make servers" builds it, and installs etcd on Debian and Ubuntu ` +
	`(apt-get install --no-install-recommends etcd-server); or set ` + KubeconfigEnv

// The folder is that of internal/tools/servers/kube.sh.
const kubeFolder = "kube-apiserver-1.37.2"

// A KubeOption changes what [Kube] starts.
type KubeOption func(*kubeConfig)

type kubeConfig struct {
	authorization string
}

// KubeRBAC makes the server authorize by roles. The user of [KubeServer.Config] may do everything, the guest of
// [KubeServer.Guest] nothing until a role is bound to it.
func KubeRBAC() KubeOption {
	return func(c *kubeConfig) { c.authorization = "RBAC" }
}

// KubeServer is a running API server and the etcd below it. Its methods are called by one goroutine at a time; each takes
// the test, or subtest, that is to fail or to be skipped.
type KubeServer struct {
	config, guest string
	api           *Server
	etcd          *process // nil if the cluster is the user's own
}

// Config is the path of a kubeconfig whose user may do everything.
func (s *KubeServer) Config() string { return s.config }

// Guest is the path of a kubeconfig of a user called "guest", who may do as much as any user of the server's may. It is
// empty for a cluster that the user named in the environment.
func (s *KubeServer) Guest() string { return s.guest }

// Addr is the host and port of the API server. It is empty for a cluster that the user named in the environment.
func (s *KubeServer) Addr() string { return s.api.Addr() }

// Owned reports whether the server was started here, as [Server.Owned] does.
func (s *KubeServer) Owned() bool { return s.api.Owned() }

// Kill9 ends the API server and etcd without warning and returns when both are gone. It is no error if they are gone
// already.
func (s *KubeServer) Kill9(t TB) {
	t.Helper()
	s.api.Kill9(t)
	s.etcd.kill()
}

// Restart starts etcd and the API server again, with the same data at the same addresses, after a Kill9 if they still
// run, and returns when they answer.
func (s *KubeServer) Restart(t TB) {
	t.Helper()
	s.Kill9(t)
	// A fault may be undone in a clean-up, where the test's context has ended.
	if err := s.etcd.start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatalf("restart: %v", err)
	}
	s.api.Restart(t)
}

// Stop freezes the API server: connections stay, nothing is answered until Cont.
func (s *KubeServer) Stop(t TB) {
	t.Helper()
	s.api.Stop(t)
}

// Cont lets a stopped API server go on. It is no error if it has not been stopped.
func (s *KubeServer) Cont(t TB) {
	t.Helper()
	s.api.Cont(t)
}

// Kube starts a Kubernetes API server over an etcd of its own; both end with the test. There are no nodes and no
// controllers. Without the programs the test is skipped, see [RequireEnv], where the name is "kubernetes". If
// [KubeconfigEnv] names a cluster it is used, and a test that asks for options is skipped.
func Kube(t TB, opts ...KubeOption) *KubeServer {
	t.Helper()
	if given := os.Getenv(KubeconfigEnv); given != "" {
		if len(opts) > 0 {
			t.Skipf("this needs an API server with a configuration of its own, and %s is set", KubeconfigEnv)
		}
		return givenKube(t, given)
	}
	program := built(kubeFolder, "kube-apiserver")
	_, err := os.Stat(program)
	store, noStore := exec.LookPath("etcd")
	if cmp.Or(err, noStore) != nil {
		missing(t, "kubernetes", kubeMissing)
	}
	c := kubeConfig{authorization: "AlwaysAllow"}
	for _, o := range opts {
		o(&c)
	}
	etcd, below := launchKubeEtcd(t, store)
	return c.launch(t, program, etcd, below)
}

func givenKube(t TB, given string) *KubeServer {
	t.Helper()
	path, err := filepath.Abs(given)
	if err == nil {
		_, err = os.Stat(path) //nolint:gosec // The user names a file of their own.
	}
	if err != nil {
		t.Fatalf("%s: %v", KubeconfigEnv, err)
	}
	return &KubeServer{config: path, api: &Server{}}
}

// launch starts the API server over the etcd at an address.
func (c *kubeConfig) launch(t TB, program string, etcd *process, below string) *KubeServer {
	t.Helper()
	f, err := newKubeFiles(t.TempDir())
	if err != nil {
		t.Fatalf("prepare the API server: %v", err)
	}
	p, addr, err := launch(t.Context(), func(port int) (*process, error) {
		ready := func(ctx context.Context, _ int) error { return f.ready(ctx, address(port)) }
		args := append(f.args(port, below), "--authorization-mode="+c.authorization)
		return &process{name: "kube-apiserver", path: program, args: args, dir: f.dir, ready: ready}, nil
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(p.kill)
	s := &KubeServer{api: &Server{addr: addr, url: "https://" + addr, process: p}, etcd: etcd}
	if s.config, err = f.kubeconfig("admin", addr); err == nil {
		s.guest, err = f.kubeconfig("guest", addr)
	}
	if err != nil {
		t.Fatalf("write a kubeconfig: %v", err)
	}
	return s
}

// launchKubeEtcd starts the etcd below an API server, and returns its address.
func launchKubeEtcd(t TB, program string) (p *process, addr string) {
	t.Helper()
	dir := t.TempDir()
	p, addr, err := launch(t.Context(), func(port int) (*process, error) {
		peer, err := freePort(t.Context())
		if err != nil {
			return nil, err
		}
		n := etcdNode{name: "n0", client: port, peer: peer}
		return newEtcdConfig(nil).prepare(program, dir, n, []etcdNode{n})
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(p.kill)
	return p, addr
}
