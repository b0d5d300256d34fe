package testserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ZooKeeperAddrEnv is the environment variable with the address, host:port, of the ZooKeeper that [ZooKeeper] returns
// instead of starting one. It is not emptied.
const ZooKeeperAddrEnv = "LEADER_ZOOKEEPER_ADDR"

const zooKeeperMissing = `ZooKeeper is not installed: "make servers" does it on Debian and Ubuntu ` +
	`(apt-get install --no-install-recommends libzookeeper-java default-jre-headless); or set ` + ZooKeeperAddrEnv

const (
	zooKeeperJars = "/usr/share/java" // of Debian's packages
	zooKeeperMain = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

	// zooKeeperLook bounds one look, because a server that is asked before it is ready may never answer.
	zooKeeperLook = 250 * time.Millisecond
)

// A ZooKeeperOption changes what [ZooKeeper] and [ZooKeeperThree] start.
type ZooKeeperOption func(*zooKeeperConfig)

type zooKeeperConfig struct{ lines []string }

// ZooKeeperConfig adds lines to zoo.cfg, after ours, so that they win.
func ZooKeeperConfig(lines ...string) ZooKeeperOption {
	return func(c *zooKeeperConfig) { c.lines = append(c.lines, lines...) }
}

// ZooKeeper starts an empty ZooKeeper of one node that ends with the test. A restart forgets nothing that was
// acknowledged before a kill. Sessions may have a timeout from 100 ms to 60 s, and end within 50 ms of it. Without
// the program the test is skipped, see [RequireEnv]. If [ZooKeeperAddrEnv] names a server it is used, and a test that
// asks for options is skipped.
func ZooKeeper(t TB, opts ...ZooKeeperOption) *Server {
	t.Helper()
	if given := os.Getenv(ZooKeeperAddrEnv); given != "" {
		if len(opts) > 0 {
			t.Skipf("this needs a ZooKeeper with a configuration of its own, and %s is set", ZooKeeperAddrEnv)
		}
		return givenZooKeeper(t, given)
	}
	java := zooKeeperJava(t)
	c := newZooKeeperConfig(opts)
	dir := t.TempDir()
	p, addr, err := launch(t.Context(), func(port int) (*process, error) {
		return c.prepare(java, dir, zooKeeperNode{client: port}, "tickTime=50")
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(p.kill)
	return &Server{addr: addr, url: addr, process: p}
}

func newZooKeeperConfig(opts []ZooKeeperOption) zooKeeperConfig {
	var c zooKeeperConfig
	for _, o := range opts {
		o(&c)
	}
	return c
}

// zooKeeperJava finds the program, or ends the test.
func zooKeeperJava(t TB) string {
	t.Helper()
	java, err := exec.LookPath("java")
	if err == nil {
		_, err = os.Stat(filepath.Join(zooKeeperJars, "zookeeper.jar"))
	}
	if err != nil {
		missing(t, "zookeeper", zooKeeperMissing)
	}
	return java
}

func givenZooKeeper(t TB, given string) *Server {
	t.Helper()
	if _, _, err := net.SplitHostPort(given); err != nil {
		t.Fatalf("%s: want host:port", ZooKeeperAddrEnv)
	}
	conn, err := (&net.Dialer{Timeout: lookTimeout}).DialContext(t.Context(), "tcp", given)
	if err != nil {
		t.Fatalf("%s: %v", ZooKeeperAddrEnv, err)
	}
	_ = conn.Close() // It has answered.
	return &Server{addr: given, url: given}
}

// zooKeeperNode has the ports of one node; the last two are 0 for one that is alone.
type zooKeeperNode struct{ id, client, peer, election int }

// prepare configures a node in a folder of its own in dir.
func (c *zooKeeperConfig) prepare(java, dir string, n zooKeeperNode, lines ...string) (*process, error) {
	dir = filepath.Join(dir, strconv.Itoa(n.id))
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	conf := append([]string{
		"dataDir=" + data,
		"clientPort=" + strconv.Itoa(n.client),
		"clientPortAddress=" + host,
		"minSessionTimeout=100",
		"maxSessionTimeout=60000",
		"maxClientCnxns=0",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
	}, lines...)
	name := filepath.Join(dir, "zoo.cfg")
	text := strings.Join(append(conf, c.lines...), "\n") + "\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(n.id)), 0o600); err != nil {
		return nil, err
	}
	args := append(zooKeeperFlags(), "-cp", zooKeeperClasses(), zooKeeperMain, name)
	ready := func(ctx context.Context, _ int) error { return zooKeeperReady(ctx, address(n.client), dir) }
	return &process{name: "zookeeper", path: java, args: args, dir: dir, ready: ready}, nil
}

// zooKeeperFlags are for a small machine that starts quickly. What a kill -9 must not lose is with the system by the
// time it is acknowledged; that it is on the disk as well is only for machines that fail.
func zooKeeperFlags() []string {
	return []string{
		"-Xms16m", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dzookeeper.forceSync=no", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
	}
}

func zooKeeperClasses() string {
	jars := []string{
		"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "netty-common", "netty-handler", "netty-transport",
		"netty-buffer", "netty-codec", "netty-resolver", "snappy-java", "metrics-core", "commons-cli", "commons-io",
	}
	for i, jar := range jars {
		jars[i] = filepath.Join(zooKeeperJars, jar+".jar")
	}
	return strings.Join(jars, string(os.PathListSeparator))
}

// zooKeeperReady looks whether the ZooKeeper at addr is the one whose working folder is dir, and serves.
func zooKeeperReady(ctx context.Context, addr, dir string) error {
	mode, err := zooKeeperAsk(ctx, addr, "srvr")
	if err != nil {
		return err
	}
	if !strings.Contains(mode, "\nMode: ") {
		return fmt.Errorf("it does not serve yet: %q", mode)
	}
	env, err := zooKeeperAsk(ctx, addr, "envi")
	if err != nil {
		return err
	}
	if !strings.Contains(env, "user.dir="+dir+"\n") {
		return errors.New("another ZooKeeper has the port")
	}
	return nil
}

// zooKeeperAsk sends a command of four letters and returns the answer.
func zooKeeperAsk(ctx context.Context, addr, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, zooKeeperLook)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(end); err != nil {
			return "", err
		}
	}
	if _, err := io.WriteString(conn, command); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}
