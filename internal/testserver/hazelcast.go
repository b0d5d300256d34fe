package testserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// HazelcastAddrEnv is the environment variable with the address, host:port, of a member of the Hazelcast cluster that
// [Hazelcast] returns instead of starting one. Its name has to be dev. It is not emptied.
const HazelcastAddrEnv = "LEADER_HAZELCAST_ADDR"

// hazelcastFolder is what internal/tools/servers/hazelcast.sh builds.
const hazelcastFolder = "hazelcast-5.5.0"

const hazelcastMissing = `Hazelcast is not built, or there is no java: "make servers" does it with a JRE and Maven ` +
	`(apt-get install --no-install-recommends default-jre-headless maven); or set ` + HazelcastAddrEnv

// A HazelcastOption changes what [Hazelcast] and [HazelcastTwo] start.
type HazelcastOption func(*hazelcastConfig)

type hazelcastConfig struct {
	lines []string
	via   func(t TB, addr string) string
}

// HazelcastConfig adds lines to the members' configuration below "hazelcast:", as "map:" and what is below that.
func HazelcastConfig(lines ...string) HazelcastOption {
	return func(c *hazelcastConfig) { c.lines = append(c.lines, lines...) }
}

// HazelcastVia makes members reach each other by other addresses: for that of a member via returns the one which it
// tells, and which a proxy may have. A client that should not follow it connects to one member alone (unisocket).
func HazelcastVia(via func(t TB, addr string) string) HazelcastOption {
	return func(c *hazelcastConfig) { c.via = via }
}

// Hazelcast starts an empty Hazelcast of one member that ends with the test. It has everything in memory: a restarted
// one is empty. Where it is not built the test is skipped, see [RequireEnv]. If [HazelcastAddrEnv] names a member it is
// used, with what is in it, and a test that asks for options is skipped.
func Hazelcast(t TB, opts ...HazelcastOption) *Server {
	t.Helper()
	if given := os.Getenv(HazelcastAddrEnv); given != "" {
		if len(opts) > 0 {
			t.Skipf("this needs a Hazelcast with a configuration of its own, and %s is set", HazelcastAddrEnv)
		}
		return givenHazelcast(t, given)
	}
	java := hazelcastJava(t)
	c := newHazelcastConfig(opts)
	dir := t.TempDir()
	p, addr, err := launch(t.Context(), func(port int) (*process, error) {
		return c.prepare(java, dir, hazelcastMember{port: port, tells: c.tells(t, port)}, 1)
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(p.kill)
	return &Server{addr: addr, url: addr, process: p}
}

func newHazelcastConfig(opts []HazelcastOption) hazelcastConfig {
	var c hazelcastConfig
	for _, o := range opts {
		o(&c)
	}
	return c
}

// tells is the address that the member at a port tells others.
func (c *hazelcastConfig) tells(t TB, port int) string {
	t.Helper()
	if c.via == nil {
		return address(port)
	}
	return c.via(t, address(port))
}

// hazelcastJava finds the program, or ends the test.
func hazelcastJava(t TB) string {
	t.Helper()
	java, err := exec.LookPath("java")
	if err == nil {
		_, err = os.Stat(built(hazelcastFolder, "lib"))
	}
	if err != nil {
		missing(t, "hazelcast", hazelcastMissing)
	}
	return java
}

func givenHazelcast(t TB, given string) *Server {
	t.Helper()
	if _, _, err := net.SplitHostPort(given); err != nil {
		t.Fatalf("%s: want host:port", HazelcastAddrEnv)
	}
	conn, err := (&net.Dialer{Timeout: lookTimeout}).DialContext(t.Context(), "tcp", given)
	if err != nil {
		t.Fatalf("%s: %v", HazelcastAddrEnv, err)
	}
	_ = conn.Close() // It has answered.
	return &Server{addr: given, url: given}
}

// hazelcastMember is one member: its port, the address that it tells, and those of the others.
type hazelcastMember struct {
	port   int
	tells  string
	others []string
}

// prepare configures a member in a folder of its own in dir, which is ready when the cluster has the size given.
func (c *hazelcastConfig) prepare(java, dir string, m hazelcastMember, size int) (*process, error) {
	dir, err := os.MkdirTemp(dir, "member-")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "hazelcast.yaml"), c.yaml(m), 0o600); err != nil {
		return nil, err
	}
	args := append(hazelcastFlags(), "-cp", built(hazelcastFolder, "lib")+"/*",
		"com.hazelcast.core.server.HazelcastMemberStarter")
	p := &process{name: "hazelcast", path: java, args: args, dir: dir}
	p.ready = hazelcastReady(p, address(m.port), size)
	return p, nil
}

// yaml is the configuration of a member.
func (c *hazelcastConfig) yaml(m hazelcastMember) []byte {
	_, port, _ := net.SplitHostPort(address(m.port))
	lines := []string{
		"hazelcast:",
		"  cluster-name: dev",
		"  network:",
		"    public-address: " + m.tells,
		"    port:",
		"      port: " + port,
		"      auto-increment: false",
		"    interfaces:",
		"      enabled: true",
		"      interfaces: [" + host + "]",
		"    rest-api:",
		"      enabled: true",
		"      endpoint-groups:",
		"        HEALTH_CHECK:",
		"          enabled: true",
		"    join:",
		"      auto-detection:",
		"        enabled: false",
		"      multicast:",
		"        enabled: false",
		"      tcp-ip:",
		"        enabled: true",
		"        member-list:",
	}
	for _, addr := range append([]string{m.tells}, m.others...) {
		lines = append(lines, "          - "+addr)
	}
	lines = append(lines, "  jet:", "    enabled: false")
	for _, line := range c.lines {
		lines = append(lines, "  "+line)
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// hazelcastFlags are for a small process that starts quickly, and for a cluster that notices within seconds that a
// member is silent and that a split has healed; by default that takes minutes.
func hazelcastFlags() []string {
	return []string{
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xms32m", "-Xmx256m",
		"--add-modules", "java.se",
		"--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED",
		"--add-opens", "java.base/java.lang=ALL-UNNAMED",
		"--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED",
		"--add-opens", "java.management/sun.management=ALL-UNNAMED",
		"--add-opens", "jdk.management/com.sun.management.internal=ALL-UNNAMED",
		"-Dhazelcast.config=hazelcast.yaml",
		"-Dhazelcast.phone.home.enabled=false",
		"-Dhazelcast.socket.bind.any=false",
		"-Dhazelcast.logging.type=jdk",
		"-Dhazelcast.wait.seconds.before.join=0",
		"-Dhazelcast.heartbeat.interval.seconds=1",
		"-Dhazelcast.max.no.heartbeat.seconds=6",
		"-Dhazelcast.merge.first.run.delay.seconds=1",
		"-Dhazelcast.merge.next.run.delay.seconds=1",
	}
}

// hazelcastReady looks whether the member at addr serves, in a cluster of the size given whose backups are made.
func hazelcastReady(p *process, addr string, size int) func(ctx context.Context, pid int) error {
	return func(ctx context.Context, _ int) error {
		// Another Hazelcast may have the port.
		log, err := os.ReadFile(p.logFile())
		if err != nil || !bytes.Contains(log, []byte(" is STARTED")) {
			return errors.Join(errors.New("the member has not said that it is started"), err)
		}
		health, err := askHazelcast(ctx, addr)
		if err == nil && (health.NodeState != "ACTIVE" || !health.ClusterSafe || health.ClusterSize < size) {
			err = fmt.Errorf("it is not ready yet: %+v", health)
		}
		return err
	}
}

// hazelcastHealth is what a member says of itself.
type hazelcastHealth struct {
	NodeState   string `json:"nodeState"`
	ClusterSafe bool   `json:"clusterSafe"`
	ClusterSize int    `json:"clusterSize"`
}

func askHazelcast(ctx context.Context, addr string) (health hazelcastHealth, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/hazelcast/health", http.NoBody)
	if err != nil {
		return health, err
	}
	req.Close = true
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return health, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return health, errors.New(answer.Status)
	}
	return health, json.NewDecoder(answer.Body).Decode(&health)
}
