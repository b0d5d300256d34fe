//go:build unix

package main_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
	"github.com/goleader/leader/internal/testserver"
)

var update = flag.Bool("update", false, "write what the tool prints to testdata")

// changing are what differs from call to call, with what stands for it.
var changing = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`"20\d\d-\d\d-\d\dT[0-9:.]+Z"`), `"INSTANT"`},
	{regexp.MustCompile(`1[0-9]{15}`), `1000000000000000`},
	{regexp.MustCompile(`"(remaining|held|waited|round_trip|worst_round_trip|clock_offset|shortest_lease)_seconds": ?-?[0-9.e-]+`), `"${1}_seconds": 0`},
	{regexp.MustCompile(`"id": "[A-Z0-9]{26}"`), `"id": "ID"`},
	{regexp.MustCompile(`"(version|go|system|commit)": "[^"]*"`), `"$1": "X"`},
	{regexp.MustCompile(`registered [0-9.]+[µmn]?s after`), `registered 1ms after`},
}

// wantGolden compares what the tool printed with a file.
func wantGolden(t *testing.T, name, got string) {
	t.Helper()
	for _, c := range changing {
		got = c.pattern.ReplaceAllString(got, c.with)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// scene is a file in which a single name and two slots are led.
func scene(t *testing.T) (settings []string, running []*invocation) {
	t.Helper()
	settings = onSQLite(t)
	for _, c := range []struct{ name, node, slots string }{
		{"feed", "n1", "0"}, {"work/ers", "n2", "2"}, {"work/ers", "n3", "2"},
	} {
		o := &jobFlags{folder: t.TempDir(), mark: c.node, work: watchdog}
		args := []string{
			"run", c.name, "--node", c.node, "--slots", c.slots, "--lease", "5s", "--meta", "zone=a",
			"--history", "none", "--", "sh", "-c", `exec "$0" "$@"`,
		}
		v := tool(t, settings, append(args, job(o)...)...)
		if err := v.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, v)
		o.started(nil)
	}
	return settings, running
}

func TestJSON_IsAsWrittenDown(t *testing.T) {
	t.Parallel()
	settings, running := scene(t)
	fence := fenceOf(t, settings, "feed")
	wantGolden(t, "list.json", sortSlots(must(t, 0, settings, "list", "--json")))
	wantGolden(t, "inspect.json", must(t, 0, settings, "inspect", "feed", "--json"))
	wantGolden(t, "inspect-group.json", sortSlots(must(t, 0, settings, "inspect", "work/ers", "--json")))
	wantGolden(t, "release.json", must(t, 0, settings,
		"release", "feed", "--fence", strconv.FormatUint(fence, 10), "--by", "ann@desk", "--reason", "a test", "--json"))
	wantGolden(t, "inspect-released.json", must(t, 0, settings, "inspect", "feed", "--json"))
	wantGolden(t, "history.json", must(t, 0, settings, "history", "--json"))
	wantGolden(t, "doctor.json", must(t, 0, settings, "doctor", "--json"))
	wantGolden(t, "migrate.json", must(t, 0, settings, "migrate", "--json"))
	wantGolden(t, "version.json", must(t, 0, nil, "version", "--json"))
	v := tool(t, settings, "run", "feed", "--json", "--", "sh", "-c", "exit 3")
	v.run(t)
	wantGolden(t, "run.json", v.errs.String())
	v = tool(t, settings, "release", "feed", "--fence", "1", "--json")
	if code := v.run(t); code != 120 {
		t.Errorf("release of what nobody holds: %d", code)
	}
	wantGolden(t, "error.json", v.errs.String())
	for _, v := range running[1:] {
		v.signal(t, syscall.SIGTERM)
		v.wait(t)
	}
	running[0].wait(t)
}

// sortSlots gives the two nodes of a group the order of their slots, which is by chance.
func sortSlots(text string) string {
	if strings.Index(text, `"n3"`) < strings.Index(text, `"n2"`) {
		return strings.NewReplacer(`"n2"`, `"n3"`, `"n3"`, `"n2"`).Replace(text)
	}
	return text
}

func fenceOf(t *testing.T, settings []string, name string) uint64 {
	t.Helper()
	var v struct{ Fence uint64 }
	if err := json.Unmarshal([]byte(must(t, 0, settings, "inspect", name, "--json")), &v); err != nil || v.Fence == 0 {
		t.Fatalf("fence %d: %v", v.Fence, err)
	}
	return v.Fence
}

func TestCandidates_ListsThemBestFirst(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "leader.db")
	b, err := sqliteleader.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, node := range []string{"n1", "n2"} {
		e, err := leader.NewStrategic(b, leader.FIFO(), leader.WithNodeID(node))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Enroll(t.Context(), "feed", leader.Candidate{Metadata: map[string]string{"zone": node}}); err != nil {
			t.Fatal(err)
		}
	}
	settings := []string{"LEADER_STORE=sqlite:" + file}
	wantGolden(t, "candidates.json", must(t, 0, settings, "candidates", "feed", "--json"))
	text := must(t, 0, settings, "candidates", "feed", "--strategy", "highest-id")
	if lines := strings.Split(text, "\n"); !strings.HasPrefix(lines[1], "n2") || !strings.Contains(lines[2], `node id below "n2"`) {
		t.Errorf("got\n%s", text)
	}
	must(t, 113, settings, "candidates", "feed", "--strategy", "dice")
}

func TestWatch_PrintsEveryChange(t *testing.T) {
	t.Parallel()
	settings := []string{"LEADER_STORE=" + testserver.Redis(t).URL()}
	v := tool(t, settings, "watch", "job", "--json")
	lines := v.follow(t, &v.Stdout, v.StdoutPipe)
	next := func() string {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("no further line: %v: %s", err, v.errs.String())
		}
		return line
	}
	text := next()
	must(t, 0, settings, "run", "job", "--node", "n1", "--", "sh", "-c", "sleep 1.5")
	text += next() + next()
	wantGolden(t, "watch.json", text)
	v.signal(t, syscall.SIGINT)
	if code := v.wait(t); code != 0 {
		t.Errorf("%d: %s", code, v.errs.String())
	}
}

func TestRelease_NeedsTheCurrentFence(t *testing.T) {
	t.Parallel()
	settings, running := scene(t)
	fence := fenceOf(t, settings, "feed")
	must(t, 113, settings, "release", "feed")
	must(t, 120, settings, "release", "feed", "--fence", strconv.FormatUint(fence-1, 10))
	must(t, 120, settings, "release", "nobody", "--fence", "5")
	if text := must(t, 0, settings, "inspect", "feed"); strings.Contains(text, "FORCED") || !strings.Contains(text, " held ") {
		t.Errorf("a refused release left\n%s", text)
	}
	must(t, 0, settings, "release", "feed", "--fence", strconv.FormatUint(fence, 10))
	text := must(t, 0, settings, "inspect", "feed")
	if !strings.Contains(text, "FORCED RELEASE") || !strings.Contains(text, "@") {
		t.Errorf("want who asked in\n%s", text)
	}
	for _, v := range running {
		v.signal(t, syscall.SIGTERM)
		v.wait(t)
	}
}

func TestRelease_IsRecordedOnRedisToo(t *testing.T) {
	t.Parallel()
	settings := []string{"LEADER_STORE=" + testserver.Redis(t).URL()}
	v := startJob(t, settings, &jobFlags{folder: t.TempDir(), mark: "held", work: watchdog}, "--lease", "2s", "--slots", "1")
	var list []struct{ Fence uint64 }
	if err := json.Unmarshal([]byte(must(t, 0, settings, "list", "--json")), &list); err != nil || len(list) != 1 {
		t.Fatalf("%v %v", list, err)
	}
	fence := strconv.FormatUint(list[0].Fence, 10)
	must(t, 120, settings, "release", "job", "--fence", fence)
	must(t, 0, settings, "release", "job", "--fence", fence, "--slot", "0", "--by", "ann@desk")
	if text := must(t, 0, settings, "inspect", "job"); !strings.Contains(text, "ann@desk") {
		t.Errorf("want who asked in\n%s", text)
	}
	if code := v.wait(t); code != 115 {
		t.Errorf("the holder: %d", code)
	}
}

func TestHistory_IsRefusedWhereThereIsNone(t *testing.T) {
	t.Parallel()
	settings := []string{"LEADER_STORE=" + testserver.Redis(t).URL()}
	v := tool(t, settings, "history")
	if code := v.run(t); code != 117 || !strings.Contains(v.errs.String(), "--history") {
		t.Errorf("%d: %s", code, v.errs.String())
	}
	elsewhere := slices.Concat(settings, []string{"LEADER_HISTORY=sqlite:" + filepath.Join(t.TempDir(), "history.db")})
	must(t, 0, elsewhere, "run", "job", "--", "true")
	if text := must(t, 0, elsewhere, "history"); !strings.Contains(text, "Succeeded") {
		t.Errorf("got\n%s", text)
	}
}

func TestNamespace_KeepsNamesApart(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	o := &jobFlags{folder: t.TempDir(), mark: "a", work: watchdog}
	v := startJob(t, settings, o, "--namespace", "team/a")
	must(t, 0, settings, "run", "job", "--", "true")
	must(t, 114, settings, "run", "job", "-n", "team/a", "--", "true")
	if text := must(t, 0, settings, "list"); strings.Contains(text, "job") {
		t.Errorf("without a namespace:\n%s", text)
	}
	if text := must(t, 0, settings, "list", "-n", "team/a"); !strings.Contains(text, "job") {
		t.Errorf("with it:\n%s", text)
	}
	v.signal(t, syscall.SIGTERM)
	v.wait(t)
}

func TestTables_ShowNoControlCharacters(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "leader.db")
	b, err := sqliteleader.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	e, err := leader.New(b, leader.WithMetadata(map[string]string{"x": "\x1b[2Jgone"}))
	if err != nil {
		t.Fatal(err)
	}
	l, err := e.Acquire(t.Context(), "feed")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release(t.Context()) //nolint:errcheck // a file of the test
	text := must(t, 0, []string{"LEADER_STORE=sqlite:" + file}, "inspect", "feed")
	if strings.ContainsRune(text, 0x1b) || !strings.Contains(text, "?[2Jgone") {
		t.Errorf("got %q", text)
	}
}
