package redisleader_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/redisleader"
	"github.com/goleader/leader/internal/testserver"
)

func list(t testing.TB, b backend.Lister, prefix string, all bool) map[string]backend.Holder {
	t.Helper()
	found := map[string]backend.Holder{}
	for e, err := range b.List(t.Context(), prefix, all) {
		if err != nil {
			t.Fatalf("List(%q): %v", prefix, err)
		}
		if _, twice := found[e.Key]; twice {
			t.Fatalf("List(%q) has %q twice", prefix, e.Key)
		}
		found[e.Key] = e.Holder
	}
	return found
}

func listed(t testing.TB, b backend.Lister, prefix string, all bool, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(list(t, b, prefix, all))); !slices.Equal(got, want) {
		t.Errorf("List(%q, %v) has %q, want %q", prefix, all, got, want)
	}
}

func TestBackend_List_PassesOverWhatIsNoRecord(t *testing.T) {
	server := testserver.Redis(t)
	client := connect(t, server)
	const prefix = `*[^a]?\`
	b := open(t, client, &redisleader.Options{Prefix: prefix})
	win(t, b, request("job", long))
	winSlot(t, b, request("job", long), 3)
	putRecord(t, b, backend.Record{Key: "job!run/1"})
	win(t, open(t, client, nil), request("of another prefix", long))
	win(t, open(t, client, &redisleader.Options{Prefix: `xb?\`}), request("of a prefix that matches as a pattern", long))
	for _, key := range []string{"{string}", "{}}", `{a\x}`, "{open", "plain", "{a}x"} {
		if err := client.Set(t.Context(), prefix+key, "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.HSet(t.Context(), prefix+"{newer}", "format", "2").Err(); err != nil {
		t.Fatal(err)
	}
	for _, all := range []bool{false, true} {
		found := list(t, b, "", all)
		if _, ok := found["job"]; !ok || len(found) != 2 {
			t.Errorf("List has %v, want job and a slot of it", found)
		}
	}
}

func TestBackend_List_ShowsEachOnceOverSeveralSteps(t *testing.T) {
	b, client := start(t)
	const n = 2500
	var want []string
	for i := range n {
		key := "name-" + strconv.Itoa(i)
		win(t, b, request(key, long))
		want = append(want, key)
	}
	if err := client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	listed(t, b, "name-", false, want...)
	listed(t, b, "name-249", false, "name-249", "name-2490", "name-2491", "name-2492", "name-2493", "name-2494",
		"name-2495", "name-2496", "name-2497", "name-2498", "name-2499")
}

func TestBackend_Cluster_ListsAllPrimaries(t *testing.T) {
	b, _ := startCluster(t)
	var want []string
	for _, name := range []string{"{}", "}{", "a{b}c", "plain", `\`, "team/job"} {
		win(t, b, request(name, long))
		win(t, b, request(backend.SlotKey(name, 3), long))
		want = append(want, name, backend.SlotKey(name, 3))
	}
	listed(t, b, "", false, want...)
	listed(t, b, "}", true, "}{", "}{#3")
	listed(t, b, "a{b}c#", true, "a{b}c#3")
}

func TestBackend_Break_LeavesNothingThatStays(t *testing.T) {
	b, client := start(t)
	lease := win(t, b, request("a", long))
	if err := b.Break(t.Context(), "a", lease.Fence()); err != nil {
		t.Fatal(err)
	}
	checkRetention(t, client, long)
	lost(t, "Renew", lease.Renew(t.Context(), long))
}
