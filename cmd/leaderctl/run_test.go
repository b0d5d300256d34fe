//go:build unix

package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goleader/leader/internal/testserver"
)

func TestRun_ReturnsTheExitCodeOfTheCommand(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	for _, c := range []struct {
		name, script string
		code         int
	}{
		{"success", "true", 0},
		{"failure", "exit 7", 7},
		{"a code of grep and friends", "exit 2", 2},
		{"the largest code", "exit 255", 255},
		{"the last of a pipeline", "echo a | grep -q b", 1},
		{"a pipeline that succeeds", "echo a | cat | grep -q a", 0},
		{"ended by KILL", "kill -KILL $$", 128 + 9},
		{"ended by TERM", "kill -TERM $$", 128 + 15},
		{"ended by PIPE, which the tool survives", "kill -PIPE $$", 128 + 13},
		{"ended by SEGV", "kill -SEGV $$", 128 + 11},
		{"a program that is not found by the shell", "no-such-program-anywhere 2>/dev/null", 127},
	} {
		if got := tool(t, settings, "run", "job", "--", "sh", "-c", c.script).run(t); got != c.code {
			t.Errorf("%s: %d, want %d", c.name, got, c.code)
		}
	}
}

func TestRun_ATroubleOfItsOwnHasACodeOfItsOwn(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		code int
		args []string
	}{
		{"no such program", 127, []string{"run", "job", "--", "no-such-program-anywhere"}},
		{"no program", 126, []string{"run", "job", "--", plain}},
		{"no command", 113, []string{"run", "job"}},
		{"no dashes", 113, []string{"run", "job", "true"}},
		{"no name", 113, []string{"run", "--", "true"}},
		{"an unknown flag", 113, []string{"run", "job", "--what", "--", "true"}},
		{"a bad name", 113, []string{"run", "a\tb", "--", "true"}},
		{"a bad duration", 113, []string{"run", "job", "--lease", "soon", "--", "true"}},
		{"a lease that is too short", 113, []string{"run", "job", "--lease", "10ms", "--", "true"}},
		{"a grace that is too long", 113, []string{"run", "job", "--lease", "3s", "--grace", "2s", "--", "true"}},
		{"a negative wait", 113, []string{"run", "job", "--wait", "-1s", "--", "true"}},
		{"an unknown store", 113, []string{"run", "job", "--store", "carrier-pigeon://loft", "--", "true"}},
		{"no store", 113, []string{"run", "job", "--store", "", "--", "true"}},
		{"a store that is down", 116, []string{"run", "job", "--store", "redis://127.0.0.1:1", "--", "true"}},
		{"a file that is no database", 117, []string{"run", "job", "--store", "sqlite:" + plain, "--", "true"}},
	} {
		v := tool(t, settings, c.args...)
		if got := v.run(t); got != c.code {
			t.Errorf("%s: %d, want %d\n%s", c.name, got, c.code, v.errs.String())
		}
	}
}

func TestRun_TellsTheCommandOfItsLease(t *testing.T) {
	t.Parallel()
	settings := append(onSQLite(t), "LEADER_SLOT=7") // as within a command of another lease
	text := must(t, 0, settings, "run", "the job", "--node", "n1", "--", "sh", "-c",
		`echo "$LEADER_NAME,$LEADER_NODE,$LEADER_FENCE,${LEADER_SLOT-none}"; "$0" list --json`, program)
	first, list, _ := strings.Cut(text, "\n")
	var held []struct {
		Name, Node string
		Fence      uint64
	}
	if err := json.Unmarshal([]byte(list), &held); err != nil || len(held) != 1 {
		t.Fatalf("%v: %s", err, list)
	}
	if want := fmt.Sprintf("the job,n1,%d,none", held[0].Fence); first != want || held[0].Node != "n1" {
		t.Errorf("the command was told %q, the store has %q", first, want)
	}
}

func TestRun_HandsArgumentsOnAsTheyAre(t *testing.T) {
	t.Parallel()
	odd := "caf\xe9 \xff\n\"$x'"
	if text := must(t, 0, onSQLite(t), "run", "job", "--", "printf", "%s|%s", odd, ""); text != odd+"|" {
		t.Errorf("got %q, want %q", text, odd+"|")
	}
}

func TestRun_HandsItsStreamsOn(t *testing.T) {
	t.Parallel()
	v := tool(t, onSQLite(t), "run", "job", "--", "sh", "-c", "cat; echo oops >&2")
	v.Stdin = strings.NewReader("from the left\n")
	if code := v.run(t); code != 0 || v.out.String() != "from the left\n" || v.errs.String() != "oops\n" {
		t.Errorf("%d, %q, %q", code, v.out.String(), v.errs.String())
	}
}

func TestRun_SkipsWhileAnotherLeads(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	o := &jobFlags{folder: t.TempDir(), mark: "first", work: watchdog}
	first := startJob(t, settings, o, "--node", "first")
	v := tool(t, settings, "run", "job", "--", "sh", "-c", "echo ran")
	if code := v.run(t); code != 114 || v.out.String() != "" || !strings.Contains(v.errs.String(), "first leads") {
		t.Errorf("%d, %q, %q", code, v.out.String(), v.errs.String())
	}
	v = tool(t, settings, "run", "job", "--json", "--", "sh", "-c", "echo ran")
	if code := v.run(t); code != 114 {
		t.Errorf("%d", code)
	}
	if want := `{"name":"job","outcome":"skipped","exit":114,"why":"first leads"}` + "\n"; v.errs.String() != want {
		t.Errorf("got %s, want %s", v.errs.String(), want)
	}
	first.signal(t, syscall.SIGTERM)
	if code := first.wait(t); code != 128+15 {
		t.Errorf("the first one: %d", code)
	}
	must(t, 0, settings, "run", "job", "--", "true")
}

// startJob starts a job that holds the name "job", and waits until it does.
func startJob(t testing.TB, settings []string, o *jobFlags, flags ...string) *invocation {
	t.Helper()
	args := append([]string{"run", "job"}, flags...)
	v := tool(t, settings, append(append(args, "--"), job(o)...)...)
	if err := v.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	timer := time.AfterFunc(watchdog, func() { close(ended) })
	defer timer.Stop()
	if o.started(ended) == 0 {
		t.Fatalf("the job did not start\n%s", v.errs.String())
	}
	return v
}

func TestRun_ARunKeyRunsOnce(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	args := []string{"run", "job", "--run-key", "2030-01-01", "--", "echo", "ran"}
	if text := must(t, 0, settings, args...); text != "ran\n" {
		t.Errorf("got %q", text)
	}
	if text := must(t, 114, settings, args...); text != "" {
		t.Errorf("it ran again: %q", text)
	}
}

func TestRun_SlotsLetSeveralLead(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	var running []*invocation
	for _, mark := range []string{"a", "b"} {
		o := &jobFlags{folder: t.TempDir(), mark: mark, work: watchdog}
		running = append(running, startJob(t, settings, o, "--slots", "2"))
	}
	must(t, 114, settings, "run", "job", "--slots", "2", "--", "true")
	if text := must(t, 0, settings, "inspect", "job"); strings.Count(text, " held ") != 2 {
		t.Errorf("want two slots:\n%s", text)
	}
	for _, v := range running {
		v.signal(t, syscall.SIGTERM)
		v.wait(t)
	}
	if text := must(t, 0, settings, "run", "job", "--slots", "2", "--", "sh", "-c", "echo slot $LEADER_SLOT"); !strings.HasPrefix(text, "slot ") {
		t.Errorf("got %q", text)
	}
}

func TestRun_PassesSignalsOn(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	for _, sig := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
	} {
		if signal.Ignored(sig) { // by whoever started the tests, and so by the tool and the shell
			continue
		}
		ready := filepath.Join(t.TempDir(), "ready")
		script := fmt.Sprintf("trap 'exit %d' %d; : > %s; while :; do sleep 0.02; done", 40+int(sig), int(sig), ready)
		v := tool(t, settings, "run", "job", "--", "sh", "-c", script)
		if err := v.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the shell", func() bool { _, err := os.Stat(ready); return err == nil })
		v.signal(t, sig)
		if code := v.wait(t); code != 40+int(sig) {
			t.Errorf("%v: %d, want %d", sig, code, 40+int(sig))
		}
	}
}

func TestRun_ASignalReachesAllOfAPipeline(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	ready := filepath.Join(t.TempDir(), "ready")
	v := tool(t, settings, "run", "job", "--", "sh", "-c", "sleep 60 | { : > "+ready+"; cat; }; exit 3")
	if err := v.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pipeline", func() bool { _, err := os.Stat(ready); return err == nil })
	began := time.Now()
	v.signal(t, syscall.SIGTERM)
	if code := v.wait(t); code != 128+15 {
		t.Errorf("%d", code)
	}
	if took := time.Since(began); took > watchdog/2 {
		t.Errorf("it took %v", took)
	}
}

func TestRun_ASignalWhileItWaitsEndsTheTool(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	first := startJob(t, settings, &jobFlags{folder: t.TempDir(), mark: "first", work: watchdog})
	waiting := tool(t, settings, "run", "job", "--wait", "1m", "--", "true")
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	campaigning := tool(t, settings, "run", "job", "--campaign", "--", "true")
	if err := campaigning.Start(); err != nil {
		t.Fatal(err)
	}
	for _, v := range []*invocation{waiting, campaigning} { // they listen to signals before they open the store
		eventually(t, "the tool's look at the store", func() bool { return hasOpen(t, v.Process.Pid, "leader.db") })
	}
	waiting.signal(t, syscall.SIGTERM)
	campaigning.signal(t, syscall.SIGINT)
	if code := waiting.wait(t); code != 128+15 {
		t.Errorf("waiting: %d\n%s", code, waiting.errs.String())
	}
	if code := campaigning.wait(t); code != 128+2 {
		t.Errorf("campaigning: %d\n%s", code, campaigning.errs.String())
	}
	first.signal(t, syscall.SIGTERM)
	first.wait(t)
}

// hasOpen reports whether a process has a file of that name open.
func hasOpen(t testing.TB, pid int, name string) bool {
	t.Helper()
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skipf("this needs /proc: %v", err)
	}
	links, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(links, func(link string) bool {
		path, err := os.Readlink(link) // it may be closed meanwhile
		return err == nil && filepath.Base(path) == name
	})
}

func TestRun_NothingOfTheGroupOutlivesTheCommand(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	o := &jobFlags{folder: t.TempDir(), mark: "forking", fork: true, stubborn: true}
	v := startJob(t, settings, o)
	if code := v.wait(t); code != 0 {
		t.Errorf("%d\n%s", code, v.errs.String())
	}
	if left := alive(o.started(nil)); len(left) > 0 {
		t.Errorf("alive: %q", left)
	}
	must(t, 0, settings, "run", "job", "--", "true")
}

func TestRun_MaxHoldEndsTheCommand(t *testing.T) {
	t.Parallel()
	o := &jobFlags{folder: t.TempDir(), mark: "long", work: watchdog, stubborn: true}
	v := startJob(t, onSQLite(t), o, "--lease", "9s", "--max-hold", "3s", "--grace", "200ms")
	if code := v.wait(t); code != 115 || !strings.Contains(v.errs.String(), "held longer than allowed") {
		t.Errorf("%d: %s", code, v.errs.String())
	}
	if left := alive(o.started(nil)); len(left) > 0 {
		t.Errorf("alive: %q", left)
	}
}

func TestRun_AForcedReleaseKillsTheCommand(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	o := &jobFlags{folder: t.TempDir(), mark: "held", work: watchdog, stubborn: true}
	v := startJob(t, settings, o, "--lease", "6s")
	fence := readJournal(t, o.folder)[0].fence
	must(t, 0, settings, "release", "job", "--fence", strconv.FormatUint(fence, 10))
	if code := v.wait(t); code != 115 || !strings.Contains(v.errs.String(), "no longer ours") {
		t.Errorf("%d: %s", code, v.errs.String())
	}
	if left := alive(o.started(nil)); len(left) > 0 {
		t.Errorf("alive: %q", left)
	}
}

func TestRun_ACampaignLeadsAgainAfterALoss(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	folder := t.TempDir()
	script := `echo $LEADER_FENCE >> ` + folder + `/fences; test $(wc -l < ` + folder + `/fences) -gt 1 && exit 5; sleep 60`
	v := tool(t, settings, "run", "job", "--campaign", "--lease", "2s", "--", "sh", "-c", script)
	if err := v.Start(); err != nil {
		t.Fatal(err)
	}
	var fence string
	eventually(t, "the first term", func() bool {
		text, err := os.ReadFile(filepath.Join(folder, "fences"))
		fence = strings.TrimSpace(string(text))
		return err == nil && fence != ""
	})
	must(t, 0, settings, "release", "job", "--fence", fence)
	if code := v.wait(t); code != 5 {
		t.Errorf("%d, want that of the second term\n%s", code, v.errs.String())
	}
}

func TestRun_IsRecorded(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	must(t, 3, settings, "run", "job", "--node", "n1", "--", "sh", "-c", "exit 3")
	text := must(t, 0, settings, "history", "job")
	if !strings.Contains(text, "Failed") || !strings.Contains(text, "n1") || !strings.Contains(text, "exit code 3") {
		t.Errorf("got\n%s", text)
	}
	must(t, 0, settings, "run", "other", "--history", "none", "--", "true")
	if text := must(t, 0, settings, "history", "other"); strings.Contains(text, "other") {
		t.Errorf("recorded although it should not be:\n%s", text)
	}
}

func TestRun_OnRedisEndsTheCommandBeforeTheLeaseDoes(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	settings := []string{"LEADER_STORE=" + redis.URL()}
	o := &jobFlags{folder: t.TempDir(), mark: "long", work: watchdog, stubborn: true, fork: true}
	const lease = 5 * time.Second
	v := startJob(t, settings, o, "--lease", lease.String(), "--grace", "300ms")
	redis.Stop(t)
	defer redis.Cont(t)
	frozen := time.Now()
	eventually(t, "the end of the command", func() bool { return len(alive(o.started(nil))) == 0 })
	if took := o.lastAlive(t).Sub(frozen); took > lease {
		t.Errorf("it lived for %v after the store froze, and its lease for up to %v", took, lease)
	}
	if code := v.wait(t); code != 115 {
		t.Errorf("%d: %s", code, v.errs.String())
	}
}
