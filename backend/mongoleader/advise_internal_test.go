package mongoleader

import (
	"slices"
	"strings"
	"testing"
)

func TestAdvice_KnowsDeployments(t *testing.T) {
	for name, test := range map[string]struct {
		hello []any
		want  []string
	}{
		"standalone":   {nil, []string{standaloneWarning}},
		"replica set":  {[]any{"setName", "rs0", "hosts", []string{"a:1", "b:1", "c:1"}}, nil},
		"with arbiter": {[]any{"setName", "rs0", "arbiters", []string{"c:1"}}, []string{arbiterWarning}},
		"sharded":      {[]any{"msg", "isdbgrid"}, []string{routerWarning}},
	} {
		if got := deploymentAdvice(marshal(t, doc(test.hello...))); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestAdvice_KnowsEngines(t *testing.T) {
	for name, test := range map[string]struct {
		status []any
		want   []string
	}{
		"unknown":    {nil, nil},
		"wiredTiger": {[]any{"storageEngine", doc("name", "wiredTiger", "persistent", true)}, nil},
		"inMemory":   {[]any{"storageEngine", doc("name", "inMemory", "persistent", false)}, []string{memoryWarning}},
	} {
		if got := engineAdvice(marshal(t, doc(test.status...))); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestCollationFault_NamesTheCollection(t *testing.T) {
	for locale, bad := range map[string]bool{"": false, "simple": false, "en": true, "de": true} {
		opts := doc()
		if locale != "" {
			opts = doc("collation", doc("locale", locale, "strength", 2))
		}
		got := collationFault("leases", marshal(t, opts))
		if bad != (got != "") || bad && (!strings.Contains(got, "leases") || !strings.Contains(got, locale)) {
			t.Errorf("locale %q: %q", locale, got)
		}
	}
}
