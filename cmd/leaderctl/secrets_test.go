//go:build unix

package main_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
)

// ledFile is a file in which the name rooted is led, with facts, and the fence of that.
func ledFile(t *testing.T, facts map[string]string) (settings []string, fence uint64) {
	t.Helper()
	settings = onExisting(t)
	b, err := sqliteleader.Open(strings.TrimPrefix(settings[0], "LEADER_STORE=sqlite:"), nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := leader.New(b, leader.WithNodeID("node-1"), leader.WithMetadata(facts))
	if err != nil {
		t.Fatal(err)
	}
	l, err := e.Acquire(t.Context(), "rooted")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.Release(context.WithoutCancel(t.Context())) // a file of the test
		_ = b.Close()
	})
	return settings, l.Info().Fence
}

func TestSecrets_DoNotChangeWhatProgramsGoBy(t *testing.T) {
	t.Parallel()
	settings, fence := ledFile(t, map[string]string{"note": "fact"})
	digits := strconv.FormatUint(fence, 10)[:4]
	for _, secret := range []string{digits, "name", "root", "held", "fence", "note", "remaining_seconds"} {
		for _, setting := range []string{"DATABASE_URL=mysql://u:" + secret + "@h", "LEADER_PASSWORD=" + secret} {
			text := must(t, 0, append(slices.Clone(settings), setting), "list", "--json")
			var list []struct {
				Name, Status string
				Fence        uint64
				Metadata     map[string]string
			}
			if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
				t.Errorf("%s: %v: %s", setting, err, text)
				continue
			}
			v := list[0]
			if v.Name != "rooted" || v.Status != "held" || v.Fence != fence || v.Metadata["note"] != "fact" {
				t.Errorf("%s: %s", setting, text)
			}
			text = must(t, 0, append(slices.Clone(settings), setting), "list")
			if !strings.Contains(text, "rooted ") || !strings.Contains(text, " held ") || !strings.Contains(text, digits) {
				t.Errorf("%s: %s", setting, text)
			}
		}
	}
}

func TestSecrets_OfTheToolAreHiddenInFacts(t *testing.T) {
	t.Parallel()
	settings, _ := ledFile(t, map[string]string{"note": "my-own-secret", "other": "postgres://u:of-an-app@h"})
	settings = append(settings, "LEADER_PASSWORD=my-own-secret", "DATABASE_URL=postgres://u:of-an-app@h")
	for _, args := range [][]string{{"inspect", "rooted"}, {"inspect", "rooted", "--json"}} {
		text := must(t, 0, settings, args...)
		if strings.Contains(text, "my-own-secret") || !strings.Contains(text, "xxxxx") || !strings.Contains(text, "of-an-app") {
			t.Errorf("%q: %s", args, text)
		}
	}
}

func TestJSON_NoLineBesideTheOutputIsAnythingElse(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"redis://u:my-secret@127.0.0.1:1", "mysql://u:my-secret@127.0.0.1:1/d"} {
		v := tool(t, []string{"LEADER_STORE=" + store}, "list", "--json", "--timeout", "2s")
		if code := v.run(t); code != 116 || v.errs.Len() == 0 {
			t.Errorf("%s: %d, %q", store, code, v.errs.String())
		}
		for line := range strings.Lines(v.errs.String()) {
			if !json.Valid([]byte(line)) || strings.Contains(line, "my-secret") {
				t.Errorf("%s: %q", store, line)
			}
		}
	}
}
