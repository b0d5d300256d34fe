package main

import (
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/internal/testserver"
)

var line = regexp.MustCompile(`^(consul|dynamodb|etcd|hazelcast|kubernetes|local|mongo|mysql|postgres|raft|redis|sqlite|zookeeper) \S+( [0-9]+(\.[0-9]+)?){3}$`)

// quick takes few rounds: it is the lines that matter here, not the figures.
func quick(t *testing.T, args ...string) []string {
	t.Helper()
	var out strings.Builder
	if err := command(t.Context(), append([]string{"-rounds", "1", "-ops", "2"}, args...), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, l := range lines {
		if !line.MatchString(l) {
			t.Errorf("%q is not a backend, a figure and three numbers", l)
		}
	}
	return lines
}

func names(lines []string) string {
	var list []string
	for _, l := range lines {
		list = append(list, strings.Fields(l)[1])
	}
	return strings.Join(list, " ")
}

func TestCommand_PrintsALineForEachFigure(t *testing.T) {
	for backend, want := range map[string]string{
		"local":  "run/cancelcause run_ns group/single allocs_per_run",
		"sqlite": "run/floor run/statements run_us skip/floor handoff_p50_ms",
	} {
		if got := names(quick(t, "-backend", backend)); got != want {
			t.Errorf("%s: got %s, want %s", backend, got, want)
		}
	}
}

// The servers are started, so a test is skipped where one cannot be.
func TestCommand_MeasuresServers(t *testing.T) {
	for backend, want := range map[string]string{
		"postgres": "run/floor run/naive run_us peer:shedlock/ours peer:advisory/ours skip/floor skip_us handoff/raw handoff_p50_ms",
		"mysql":    "run/floor run/naive run_us peer:getlock/ours skip/floor skip_us",
		"mongo":    "run/floor run/naive run_us skip/floor skip_us",
		"etcd": "run/floor run_us peer:mutex/ours peer:election/ours peer:session/ours skip/floor skip_us " +
			"handoff/raw handoff_p50_ms peer:mutex_handoff/ours",
		"consul":     "run/floor run_us peer:lock/ours skip/floor skip_us handoff/raw handoff_p50_ms peer:lock_handoff/ours",
		"zookeeper":  "run/floor run_us peer:lock/ours skip/floor skip_us handoff/raw handoff_p50_ms peer:lock_handoff/ours",
		"kubernetes": "run/floor run_us peer:clientgo/ours skip/floor skip_us handoff/raw handoff_p50_ms",
		"dynamodb":   "run/floor run/naive run_us skip/floor skip_us",
		"hazelcast": "run/put_remove run/repeat_floor run/floor run_us skip/floor skip_us " +
			"handoff/raw handoff_p50_ms",
		"raft": "run/entry forwarded/entry run_us memory_run/entry memory_run_us skip/verify skip_us " +
			"handoff/raw handoff_p50_ms",
	} {
		t.Run(backend, func(t *testing.T) {
			needs(t, backend)
			if got := names(quick(t, "-backend", backend)); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// needs starts the server of a backend, to skip the test where that is impossible: the command would fail.
func needs(t *testing.T, backend string) {
	t.Helper()
	switch backend {
	case "postgres":
		testserver.Postgres(t)
	case "mysql":
		testserver.MariaDB(t)
	case "mongo":
		testserver.Mongo(t)
	case "etcd":
		testserver.Etcd(t)
	case "consul":
		testserver.Consul(t)
	case "zookeeper":
		testserver.ZooKeeper(t)
	case "kubernetes":
		testserver.Kube(t)
	case "dynamodb":
		testserver.Dynamo(t)
	case "hazelcast":
		testserver.Hazelcast(t)
	}
}

func TestCommand_MeasuresRedis(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	const want = "run/floor run/setnx run_us peer:redsync/ours peer:redislock/ours peer:rueidislock/ours " +
		"skip/floor skip_us handoff/raw handoff_p50_ms peer:rueidislock_handoff/ours peer:redsync_handoff/ours " +
		"contended8_runs_per_s contended8_apart_runs_per_s group/single group10/single strategic/run runkey/run observed/run " +
		"strategic_requests strategic_skip_requests list1000_ms"
	if got := names(quick(t, "-backend", "redis")); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCommand_TakesLongFiguresByTheirNames(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	lines := quick(t, "-backend", "redis", "-figures", "waiters1000|renew10k_lost", "-idle", "100ms", "-renew", "100ms")
	if got := names(lines); got != "waiters1000_cpu_percent renew10k_lost" {
		t.Errorf("got %s", got)
	}
	if got := lines[1]; got != "redis renew10k_lost 0 0 0" {
		t.Errorf("got %s", got)
	}
}

func TestCommand_HoldsManyLeasesOfEtcd(t *testing.T) {
	needs(t, "etcd")
	lines := quick(t, "-backend", "etcd", "-figures", "^renew2k_(lost|renewals)", "-renew", "100ms")
	if got := names(lines); got != "renew2k_lost renew2k_renewals_per_s" {
		t.Errorf("got %s", got)
	}
	if got := lines[0]; got != "etcd renew2k_lost 0 0 0" {
		t.Errorf("got %s", got)
	}
}

func TestCommand_TakesOnlyTheFiguresAskedFor(t *testing.T) {
	if got := names(quick(t, "-backend", "local", "-figures", "^run_ns$")); got != "run_ns" {
		t.Errorf("got %s", got)
	}
}

func TestCommand_RefusesBadFlags(t *testing.T) {
	for _, args := range [][]string{
		{"-backend", "nosuch"}, {"-rounds", "0"}, {"-ops", "0"}, {"-figures", "("}, {"surplus"},
	} {
		var out strings.Builder
		if err := command(t.Context(), args, &out); err == nil || out.Len() > 0 {
			t.Errorf("%v: got %v and %q", args, err, out.String())
		}
	}
}

func TestCheck_ComparesWithTheBars(t *testing.T) {
	for _, c := range []struct {
		taken  []figure
		want   string
		missed bool
	}{
		{[]figure{{"run/floor", contest.Single(1.15)}}, "PASS redis run/floor 1.15 <= 1.15\n", false},
		{[]figure{{"run/floor", contest.Single(1.2)}}, "MISS redis run/floor 1.20 <= 1.15\n", true},
		{[]figure{{"peer:redsync/ours", contest.Single(1)}}, "PASS redis peer:redsync/ours 1.00 >= 1.00\n", false},
		{[]figure{{"peer:redslock/ours", contest.Single(0.1)}}, "", false},
		{
			[]figure{{"peer:redislock/ours", contest.Single(0.7)}, {"skip/floor", contest.Single(1)}},
			"MISS redis peer:redislock/ours 0.700 >= 0.769\nPASS redis skip/floor 1.00 <= 1.10\n", true,
		},
	} {
		var out strings.Builder
		err := check(&out, "redis", c.taken)
		if out.String() != c.want || errors.Is(err, errMissed) != c.missed {
			t.Errorf("%v: got %q and %v", c.taken, out.String(), err)
		}
	}
}

func TestBars_NameFiguresThatAreTaken(t *testing.T) {
	for _, b := range bars {
		if b.figure == "" || backends[b.backend] == nil {
			t.Errorf("%v", b)
		}
	}
}

func TestShort_KeepsThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.0123: "0.012", 0.5: "0.500", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 12345.6: "12346",
	} {
		if got := short(v); got != want {
			t.Errorf("short(%v) = %s, want %s", v, got, want)
		}
	}
}
