package key_test

import (
	"context"
	"errors"
	"testing"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/internal/key"
)

var keys = []key.Key{
	{Name: "job"},
	{Name: "a/b#c!d%e"},
	{Name: "%s%p"},
	{Name: " ä "},
	{Namespace: "team", Name: "job"},
	{Namespace: "te/am", Name: "jo#b"},
	{Name: "job", Slot: 0, Group: true},
	{Namespace: "n", Name: "job", Slot: 12, Group: true},
}

func TestKey_ParseUndoesString(t *testing.T) {
	t.Parallel()
	for _, k := range keys {
		if got, ok := key.Parse(k.String()); !ok || got != k {
			t.Errorf("%+v: %q is read as %+v, %v", k, k.String(), got, ok)
		}
	}
}

func TestKey_IsTheOneOfTheEngine(t *testing.T) {
	t.Parallel()
	for _, k := range keys {
		if k.Group {
			continue // backend.SlotKey is public
		}
		d := local.New()
		opts := []leader.Option{}
		if k.Namespace != "" {
			opts = append(opts, leader.WithNamespace(k.Namespace))
		}
		e, err := leader.New(d, opts...)
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.RunIfLeader(t.Context(), k.Name, func(ctx context.Context) error {
			h, err := d.Inspect(ctx, k.String())
			if err == nil && h.Free() {
				err = errors.New("nobody holds the key")
			}
			if err != nil {
				t.Errorf("%+v: %v", k, err)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%+v: %v", k, err)
		}
	}
	if got, want := (key.Key{Name: "a", Slot: 3, Group: true}).String(), backend.SlotKey("a", 3); got != want {
		t.Errorf("slot: %q, want %q", got, want)
	}
}

func TestParse_RefusesWhatTheEngineDoesNotBuild(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "a#", "a#x", "a#-1", "a!candidate/n", "ns/", "/a", "n#0/a", "a/b/c", "a#1#2",
		"a#01", "a#+1", "a%", "a%z", "%/a", "a#1/b",
	} {
		if k, ok := key.Parse(text); ok {
			t.Errorf("%q is read as %+v", text, k)
		}
	}
}

func FuzzKey_ParseUndoesString(f *testing.F) {
	f.Add("ns", "name", 3, true)
	f.Fuzz(func(t *testing.T, namespace, name string, slot int, group bool) {
		if name == "" || slot < 0 {
			return
		}
		k := key.Key{Namespace: namespace, Name: name, Group: group}
		if group {
			k.Slot = slot
		}
		if got, ok := key.Parse(k.String()); !ok || got != k {
			t.Errorf("%+v: %q is read as %+v, %v", k, k.String(), got, ok)
		}
	})
}
