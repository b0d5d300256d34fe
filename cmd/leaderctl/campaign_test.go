//go:build unix

package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// twice is a silent script that does something when it is started for the first time, with its fence in the file fences, and
// ends with code 5 the second time.
func twice(folder, first string) string {
	return fmt.Sprintf(`exec 2>/dev/null; cd %s; echo $LEADER_FENCE >> fences; test $(wc -l < fences) -gt 1 && exit 5; %s
		: > ready; while :; do sleep 0.02; done`, folder, first)
}

// exists reports whether there is such a file.
func exists(folder, name string) bool {
	_, err := os.Stat(filepath.Join(folder, name))
	return err == nil
}

// startCampaign starts a script that twice made, and waits until it works.
func startCampaign(t testing.TB, settings []string, folder, first string, flags ...string) *invocation {
	t.Helper()
	args := append([]string{"run", "job", "--campaign"}, flags...)
	v := tool(t, settings, append(args, "--", "sh", "-c", twice(folder, first))...)
	if err := v.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first term", func() bool { return exists(folder, "ready") })
	return v
}

// fencesOf are those of the terms of a script that twice made.
func fencesOf(t testing.TB, folder string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "fences"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// report is a line about a run.
type report struct {
	Outcome string
	Exit    int
	Fence   uint64
	Why     string
}

// reportsOf are the lines about runs among all that a tool has written.
func reportsOf(t testing.TB, v *invocation) (list []report) {
	t.Helper()
	for line := range strings.Lines(v.errs.String()) {
		var r report
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if r.Outcome != "" {
			list = append(list, r)
		}
	}
	return list
}

func TestRun_NothingIsStartedAgainAfterASignalThatAsksForTheEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		sig   syscall.Signal
		flags []string
		lose  func(t *testing.T, settings []string, folder string)
	}{
		{"released by force", syscall.SIGTERM, []string{"--lease", "6s"}, release},
		{"released by force, after INT", syscall.SIGINT, []string{"--lease", "6s"}, release},
		{"too old", syscall.SIGQUIT, []string{"--lease", "15s", "--max-hold", "5s", "--grace", "200ms"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			settings, folder := onSQLite(t), t.TempDir()
			stays := `trap ': > heard' INT QUIT TERM`
			v := startCampaign(t, settings, folder, stays, append(c.flags, "--json")...)
			v.signal(t, c.sig)
			eventually(t, "the signal", func() bool { return exists(folder, "heard") })
			if c.lose != nil {
				c.lose(t, settings, folder)
			}
			want := 128 + int(c.sig)
			if code := v.wait(t); code != want {
				t.Errorf("%d, want %d\n%s", code, want, v.errs.String())
			}
			if terms := fencesOf(t, folder); len(terms) != 1 {
				t.Errorf("%d terms", len(terms))
			}
			if list := reportsOf(t, v); len(list) != 1 || list[0].Outcome != "interrupted" || list[0].Exit != want {
				t.Errorf("it says %+v", list)
			}
		})
	}
}

// release releases the last term of a script that twice made.
func release(t *testing.T, settings []string, folder string) {
	t.Helper()
	terms := fencesOf(t, folder)
	must(t, 0, settings, "release", "job", "--fence", terms[len(terms)-1])
}

func TestRun_ACampaignEndsWithACommandThatASignalEnded(t *testing.T) {
	t.Parallel()
	for code, what := range map[int]string{0: "exit 0", 9: "exit 9", 128 + 15: "trap - TERM; kill -TERM $$"} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			v := startCampaign(t, onSQLite(t), folder, "trap '"+what+"' TERM", "--json")
			v.signal(t, syscall.SIGTERM)
			if got := v.wait(t); got != code {
				t.Errorf("%d, want %d", got, code)
			}
			if list := reportsOf(t, v); len(list) != 1 || list[0].Outcome != "ended" || list[0].Exit != code {
				t.Errorf("it says %+v", list)
			}
		})
	}
}

func TestRun_ACampaignTellsOfEachTerm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		why   string
		flags []string
	}{
		"lost":    {"no longer ours", []string{"--lease", "6s"}},
		"too old": {"held longer than allowed", []string{"--lease", "15s", "--max-hold", "5s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings, folder := onSQLite(t), t.TempDir()
			v := startCampaign(t, settings, folder, "", append(c.flags, "--json")...)
			if name == "lost" {
				release(t, settings, folder)
			}
			if code := v.wait(t); code != 5 {
				t.Errorf("%d, want that of the second term", code)
			}
			list := reportsOf(t, v)
			var fences []string
			for _, r := range list {
				fences = append(fences, strconv.FormatUint(r.Fence, 10))
			}
			if want := fencesOf(t, folder); !slices.Equal(fences, want) {
				t.Fatalf("it says %+v, the fences are %q", list, want)
			}
			if list[0].Outcome != "lost" || list[0].Exit != 115 || !strings.Contains(list[0].Why, c.why) ||
				list[1].Outcome != "ended" || list[1].Exit != 5 {
				t.Errorf("it says %+v", list)
			}
			text := must(t, 0, settings, "history", "job")
			if !strings.Contains(text, "Lost") || !strings.Contains(text, c.why) || !strings.Contains(text, "Failed") {
				t.Errorf("the history has\n%s", text)
			}
		})
	}
}

func TestRun_GoesOnWhenNobodyReadsWhatItSays(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	settings, folder := onSQLite(t), t.TempDir()
	v := tool(t, settings, "run", "job", "--campaign", "--lease", "6s", "--", "sh", "-c", twice(folder, ""))
	v.Stderr = writer
	if err := v.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first term", func() bool { return exists(folder, "ready") })
	release(t, settings, folder) // of which it warns
	if code := v.wait(t); code != 5 {
		t.Errorf("%d, want that of the second term", code)
	}
}
