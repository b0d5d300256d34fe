//go:build unix

package main_test

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/internal/testserver"
)

// silent is the address of a server that never answers. It tells of each connection.
func silent(t *testing.T) (addr string, connected <-chan struct{}) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	came := make(chan struct{}, 100)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			came <- struct{}{}
		}
	}()
	return listener.Addr().String(), came
}

func TestSignals_EndWhatASilentStoreIsAsked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		store func(addr string) []string
		args  []string
	}{
		{"the history", func(addr string) []string {
			return append(onExisting(t), "LEADER_HISTORY=postgres://u:secret@"+addr+"/d?sslmode=disable")
		}, []string{"history"}},
		{"the history, migrated", func(addr string) []string {
			return append(onExisting(t), "LEADER_HISTORY=postgres://u:secret@"+addr+"/d?sslmode=disable")
		}, []string{"migrate"}},
		{"etcd with a user", func(addr string) []string { return []string{"LEADER_STORE=etcd://u:secret@" + addr} }, []string{"list"}},
	} {
		addr, connected := silent(t)
		v := tool(t, c.store(addr), append(c.args, "--timeout", watchdog.String())...)
		if err := v.Start(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-connected:
		case <-time.After(watchdog):
			t.Fatalf("%s: it was not asked", c.name)
		}
		v.signal(t, syscall.SIGTERM)
		if code := v.wait(t); code != 143 {
			t.Errorf("%s: %d: %s", c.name, code, v.errs.String())
		}
	}
}

func TestEtcd_SaysWhyNobodyIsLetIn(t *testing.T) {
	t.Parallel()
	must(t, 116, nil, "list", "--store", "etcd://u:secret@127.0.0.1:1", "--timeout", "500ms")
	server := protectedEtcd(t)
	must(t, 0, nil, "list", "--store", "etcd://root:right-one@"+server.Addr())
	v := tool(t, nil, "list", "--store", "etcd://root:wrong-one@"+server.Addr())
	if code := v.run(t); code != 117 || strings.Contains(v.errs.String(), "wrong-one") {
		t.Errorf("%d: %s", code, v.errs.String())
	}
}

func TestRun_ACampaignWaitsForAStoreThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	server := protectedEtcd(t)
	proxy, err := netfault.Listen(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	proxy.Freeze()
	v := tool(t, []string{"LEADER_STORE=etcd://root:right-one@" + proxy.Addr()}, "run", "job", "--campaign", "--", "true")
	said := v.follow(t, &v.Stderr, v.StderrPipe)
	if line, err := said.ReadString('\n'); err != nil || !strings.Contains(line, "trying again") || strings.Contains(line, "right-one") {
		t.Errorf("%q, %v", line, err)
	}
	proxy.Thaw()
	rest, err := io.ReadAll(said)
	if code := v.wait(t); code != 0 || err != nil {
		t.Errorf("%d, %v: %s", code, err, rest)
	}
}

// protectedEtcd is a server of its own that lets only root in.
func protectedEtcd(t *testing.T) *testserver.Server {
	t.Helper()
	server := testserver.Etcd(t, testserver.EtcdFlags())
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	steps := []func() error{
		func() error { _, err := c.UserAdd(ctx, "root", "right-one"); return err },
		func() error { _, err := c.RoleAdd(ctx, "root"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return server
}

func TestHistory_ThatIsDownIsNotTakenForAMissingTable(t *testing.T) {
	t.Parallel()
	for _, history := range []string{
		"postgres://u:secret@127.0.0.1:1/d", "mysql://u:secret@127.0.0.1:1/d",
		"mongodb://u:secret@127.0.0.1:1/d?serverSelectionTimeoutMS=200",
	} {
		settings := append(onExisting(t), "LEADER_HISTORY="+history)
		for _, command := range []string{"history", "migrate"} {
			v := tool(t, settings, command)
			if code := v.run(t); code != 116 || strings.Contains(v.errs.String(), "leaderctl migrate") {
				t.Errorf("%s of %s: %d: %s", command, history, code, v.errs.String())
			}
		}
		store := strings.TrimPrefix(settings[0], "LEADER_STORE=")
		wantFinding(t, diagnose(t, 119, store, "--history", history), "history", "the network", "--history none")
	}
}

func TestHistory_AMissingTableIsSaid(t *testing.T) {
	t.Parallel()
	v := tool(t, []string{"LEADER_STORE=" + testserver.Postgres(t).URL()}, "history")
	if code := v.run(t); code != 117 || !strings.Contains(v.errs.String(), "leaderctl migrate") {
		t.Errorf("%d: %s", code, v.errs.String())
	}
}

func TestHistory_HasRunsOfItsNamespaceAlone(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	runs := func(args ...string) (nodes, namespaces []string) {
		var list []struct{ Node, Namespace string }
		text := must(t, 0, settings, append([]string{"history", "--json"}, args...)...)
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for _, r := range list {
			nodes, namespaces = append(nodes, r.Node), append(namespaces, r.Namespace)
		}
		return nodes, namespaces
	}
	must(t, 0, settings, "run", "job", "-n", "team-a", "--node", "a", "--", "true")
	for range 3 {
		must(t, 0, settings, "run", "job", "-n", "team-b", "--node", "b", "--", "true")
	}
	must(t, 0, settings, "run", "job", "--node", "none", "--", "true")
	if nodes, namespaces := runs("job", "-n", "team-a", "--limit", "1"); !slices.Equal(nodes, []string{"a"}) ||
		!slices.Equal(namespaces, []string{"team-a"}) {
		t.Errorf("team-a has runs of %q in %q", nodes, namespaces)
	}
	if nodes, _ := runs("-n", "team-b"); !slices.Equal(nodes, []string{"b", "b", "b"}) {
		t.Errorf("team-b has runs of %q", nodes)
	}
	if nodes, _ := runs(); !slices.Equal(nodes, []string{"none"}) {
		t.Errorf("without a namespace there are runs of %q", nodes)
	}
}

func TestHistory_IsNotTakenToWhereThereIsNoPlace(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"history"}, {"list"}, {"migrate"}, {"run", "job", "--", "true"}} {
		v := tool(t, append(onExisting(t), "LEADER_HISTORY=redis://u:secret@127.0.0.1:1"), command...)
		code := v.run(t)
		if text := v.errs.String(); code != 113 || !strings.Contains(text, "redis has no place for a history") ||
			!strings.Contains(text, "postgres") {
			t.Errorf("%q: %d: %s", command, code, text)
		}
	}
}

func TestWatch_KnowsNothingOfAStoreThatIsDown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want string
		args []string
	}{{`"status":"unknown"`, []string{"--json"}}, {"store unavailable, nothing known yet", nil}} {
		v := tool(t, nil, append([]string{"watch", "job", "--store", "redis://127.0.0.1:1"}, c.args...)...)
		line, err := v.follow(t, &v.Stdout, v.StdoutPipe).ReadString('\n')
		if err != nil || !strings.Contains(line, c.want) || strings.Contains(line, "free") {
			t.Errorf("%q, %v", line, err)
		}
		v.signal(t, syscall.SIGTERM)
		v.wait(t)
	}
}

func TestSQLite_WhoLooksMakesNoFile(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	path := strings.TrimPrefix(settings[0], "LEADER_STORE=sqlite:")
	elsewhere := append(onExisting(t), "LEADER_HISTORY=sqlite:"+path)
	calls := [][]string{
		{"list"},
		{"inspect", "job"},
		{"watch", "job"},
		{"candidates", "job"},
		{"history"},
		{"doctor"},
		{"doctor", "--read-only"},
		{"release", "job", "--fence", "1"},
	}
	for _, args := range calls {
		v := tool(t, settings, args...)
		if code := v.run(t); code != 117 || !strings.Contains(v.errs.String(), path) {
			t.Errorf("%q: %d: %s", args, code, v.errs.String())
		}
		if _, err := os.Stat(path); err == nil {
			t.Fatalf("%q made the file", args)
		}
	}
	v := tool(t, elsewhere, "history")
	if code := v.run(t); code != 117 || !strings.Contains(v.errs.String(), path) {
		t.Errorf("a history that is not there: %d: %s", code, v.errs.String())
	}
}

func TestSQLite_WhoLooksMakesNoTables(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	path := strings.TrimPrefix(settings[0], "LEADER_STORE=sqlite:")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"list"}, {"doctor", "--read-only"}} {
		v := tool(t, settings, args...)
		if code := v.run(t); code != 117 || !strings.Contains(v.errs.String(), "leaderctl migrate") {
			t.Errorf("%q: %d: %s", args, code, v.errs.String())
		}
	}
	// Here nobody has recorded a run yet.
	if text := must(t, 0, append(onExisting(t), "LEADER_HISTORY=sqlite:"+path), "history", "--json"); text != "[]\n" {
		t.Errorf("the history of a new file is %s", text)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("the file was written: %v, %v", info, err)
	}
}
