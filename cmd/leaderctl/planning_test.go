//go:build unix

package main_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestRun_TheOutcomeSaysWhoseTheCodeIs(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	for _, code := range []int{0, 1, 113, 114, 115, 116, 117, 118, 119, 120, 126, 127, 143} {
		v := tool(t, settings, "run", "job", "--json", "--", "sh", "-c", fmt.Sprintf("exit %d", code))
		got := v.run(t)
		if list := reportsOf(t, v); got != code || len(list) != 1 || list[0].Outcome != "ended" || list[0].Exit != code {
			t.Errorf("%d: it ends with %d and says %+v", code, got, list)
		}
	}
}

func TestRun_TheLeaseIsAsLongAsItsMinimumUnlessOneIsGiven(t *testing.T) {
	t.Parallel()
	settings := onSQLite(t)
	list := must(t, 0, settings, "run", "job", "--min-lease", "5m", "--", program, "list", "--json")
	var held []struct {
		Remaining float64 `json:"remaining_seconds"`
	}
	if err := json.Unmarshal([]byte(list), &held); err != nil || len(held) != 1 || held[0].Remaining < 120 {
		t.Errorf("%v: %s", err, list)
	}
	v := tool(t, settings, "run", "job", "--", "true")
	if code := v.run(t); code != 114 || !strings.Contains(v.errs.String(), "a minimum lease") {
		t.Errorf("%d: %s", code, v.errs.String())
	}
	for name, c := range map[string]struct{ settings, flags []string }{
		"flag":        {nil, []string{"--lease", "1m"}},
		"environment": {[]string{"LEADER_LEASE=1m"}, nil},
		"file":        {[]string{"LEADER_CONFIG=" + write(t, "c", "lease: 1m\n")}, nil},
	} {
		args := append([]string{"run", "other", "--min-lease", "5m"}, c.flags...)
		v := tool(t, append(c.settings, onSQLite(t)...), append(args, "--", "true")...)
		if code := v.run(t); code != 113 || !strings.Contains(v.errs.String(), "--min-lease 5m0s, --lease 1m0s") {
			t.Errorf("%s: %d, %s", name, code, v.errs.String())
		}
	}
	must(t, 0, onSQLite(t), "run", "other", "--min-lease", "5m", "--lease", "5m", "--", "true")
}

func TestRun_FlagsThatDoNotGoTogether(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file string
		code       int
		flags      []string
	}{
		{"a campaign that waits", "", 113, []string{"--campaign", "--wait", "1m"}},
		{"a campaign with a run key", "", 113, []string{"--campaign", "--run-key", "k"}},
		{"a retry without a run key", "", 113, []string{"--retry-failed"}},
		{"a negative age", "", 113, []string{"--max-hold", "-1s"}},
		{"a negative grace", "", 113, []string{"--grace", "-1s"}},
		{"a campaign beside a file that waits", "wait: 1m\n", 4, []string{"--campaign"}},
		{"a run beside a file that retries", "retry-failed: true\n", 4, nil},
		{"a run key beside a file that campaigns", "campaign: true\n", 4, []string{"--run-key", "k"}},
		{"a wait beside a file that campaigns", "campaign: true\n", 4, []string{"--wait", "1s"}},
	} {
		settings := append(onSQLite(t), "LEADER_CONFIG="+write(t, "c", c.file))
		v := tool(t, settings, append(append([]string{"run", "job"}, c.flags...), "--", "sh", "-c", "exit 4")...)
		if code := v.run(t); code != c.code {
			t.Errorf("%s: %d, want %d\n%s", c.name, code, c.code, v.errs.String())
		}
	}
}
