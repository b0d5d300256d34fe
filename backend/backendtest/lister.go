package backendtest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goleader/leader/backend"
)

func listerCases() []testCase {
	return []testCase{
		{
			name: "List_ShowsHeldKeys",
			rule: abilityLister,
			says: "List yields every held key, slots included, with its holder as Inspect has it, and no key that is free",
			run:  listShowsHeldKeys,
		},
		{
			name: "List_ShowsKeptKeysWithAll",
			rule: abilityLister,
			says: "List yields a kept key if all is set, and not otherwise",
			run:  listShowsKeptKeysWithAll,
		},
		{
			name: "List_ShowsExpiredKeysWithAll",
			rule: abilityLister,
			says: "List yields an expired key, with nothing remaining, if all is set, and not otherwise",
			run:  listShowsExpiredKeysWithAll,
		},
		{
			name: "List_GivesKeysBack",
			rule: abilityLister,
			says: "the keys that List yields are those that were acquired, each once",
			run:  listGivesKeysBack,
		},
		{
			name: "List_TakesThePrefixAsItIs",
			rule: abilityLister,
			says: "List yields the keys that begin with prefix: its case counts, and no symbol in it is a pattern",
			run:  listTakesThePrefixAsItIs,
		},
		{
			name: "List_ShowsMany",
			rule: abilityLister,
			says: "List yields each of 300 keys, once",
			run:  listShowsMany,
		},
		{
			name: "List_LeavesOutRecords",
			rule: abilityLister,
			says: "List yields no record",
			run:  listLeavesOutRecords,
		},
		{
			name: "List_MayBeLeft",
			rule: abilityLister,
			says: "a loop over List may be left at any time, and leaves nothing behind",
			run:  listMayBeLeft,
		},
		{
			name: "List_MayBeUsedWithin",
			rule: abilityLister,
			says: "the body of a loop over List may call the driver",
			run:  listMayBeUsedWithin,
		},
		{
			name: "List_EndsWithItsContext",
			rule: abilityLister,
			says: "List yields an error that wraps its context's, last, when that is over",
			run:  listEndsWithItsContext,
		},
		{
			name:  "List_IgnoresForeignRecords",
			rule:  abilityLister,
			says:  "something of another type in a record's place is not shown, is no error, and does not hide the others",
			needs: needCorrupt,
			run:   listIsNotMisled(WrongType),
		},
		{
			name:  "List_LeavesOutGarbledRecords",
			rule:  abilityLister,
			says:  "a record that cannot be read is not shown and does not hide the others",
			needs: needCorrupt,
			run:   listIsNotMisled(Garbled),
		},
		{
			name:  "List_LeavesOutNewerMajors",
			rule:  abilityLister,
			says:  "a record of a newer major version is not shown and does not hide the others",
			needs: needCorrupt,
			run:   listIsNotMisled(NewerMajor),
		},
	}
}

// listPair returns two clients of a new store, of which the second lists.
func (t *caseT) listPair() (a, b backend.Driver, l backend.Lister) {
	t.Helper()
	a, b = t.pair()
	return a, b, ability[backend.Lister](t, b)
}

// list returns what List yields, by key.
func (t *caseT) list(l backend.Lister, prefix string, all bool) map[string]backend.Holder {
	t.Helper()
	found, err := t.listed(l, prefix, all)
	if err != nil {
		t.Fatalf("List(%q, %t): %v", prefix, all, err)
	}
	return found
}

// listed is list with the error that may come last.
func (t *caseT) listed(l backend.Lister, prefix string, all bool) (map[string]backend.Holder, error) {
	t.Helper()
	found := make(map[string]backend.Holder)
	var last error
	for e, err := range l.List(t.Context(), prefix, all) {
		switch _, twice := found[e.Key]; {
		case last != nil:
			t.Fatalf("List(%q, %t) goes on after the error %v", prefix, all, last)
		case err != nil:
			last = err
		case twice:
			t.Fatalf("List(%q, %t) yields %q twice", prefix, all, e.Key)
		case !strings.HasPrefix(e.Key, prefix):
			t.Fatalf("List(%q, %t) yields %q", prefix, all, e.Key)
		default:
			found[e.Key] = e.Holder
		}
	}
	return found, last
}

// lists checks that exactly the keys are listed.
func (t *caseT) lists(l backend.Lister, prefix string, all bool, want ...string) map[string]backend.Holder {
	t.Helper()
	found := t.list(l, prefix, all)
	got := slices.Sorted(maps.Keys(found))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("List(%q, %t) yields %q, want %q", prefix, all, got, want)
	}
	return found
}

func listShowsHeldKeys(t *caseT) {
	a, b, l := t.listPair()
	t.lists(l, "", false)
	keys := []string{"job", backend.SlotKey("job", 0), backend.SlotKey("job", 11), "n/job"}
	var grants []grant
	for _, key := range keys {
		grants = append(grants, t.win(a, t.request(key, t.long())))
	}
	t.release(t.win(a, t.request("released", t.long())), 0)
	t.abandoned(a, t.win(a, t.request("abandoned", t.long())).req)
	t.abandoned(a, t.request("never taken", t.long()))
	for _, all := range []bool{false, true} {
		found := t.list(l, "", all)
		for _, g := range grants {
			h, want := found[g.req.Key], t.inspect(b, g.req.Key)
			h.Seen = want.Seen // which is for Waiter
			if !sameHolder(h, want) {
				t.Errorf("List(all: %t) has %q held by %+v, Inspect by %+v", all, g.req.Key, h, want)
			}
			t.plausible(h.Remaining, g.sent, g.req.TTL)
		}
	}
	t.lists(l, "", false, keys...)
	for _, g := range grants {
		t.release(g, 0)
	}
	t.lists(l, "", false)
}

func listShowsKeptKeysWithAll(t *caseT) {
	a, _, l := t.listPair()
	g := t.win(a, t.request("kept", t.long()))
	t.win(a, t.request("held", t.long()))
	t.release(g, t.long())
	t.lists(l, "", false, "held")
	h := t.lists(l, "", true, "held", "kept")["kept"]
	if !h.Kept || h.Owner != g.req.Owner || h.Fence != g.Fence() {
		t.Errorf("List has %+v, want kept, owner %s, fence %d", h, g.req.Owner, g.Fence())
	}
}

func listShowsExpiredKeysWithAll(t *caseT) {
	a, b, l := t.listPair()
	g := t.win(a, t.request("expired", t.ttl()))
	t.win(a, t.request("held", t.long()))
	t.freeAgain(b, g)
	t.lists(l, "", false, "held")
	h := t.lists(l, "", true, "expired", "held")["expired"]
	if h.Remaining != 0 || h.Kept || h.Owner != g.req.Owner || h.Fence != g.Fence() {
		t.Errorf("List has %+v, want owner %s, fence %d, and nothing remaining", h, g.req.Owner, g.Fence())
	}
	t.win(b, t.request("expired", t.long()))
	t.lists(l, "", false, "expired", "held")
}

func listGivesKeysBack(t *caseT) {
	a, _, l := t.listPair()
	keys := []string{
		"job", "Job", "job ", " job", "n/job", "n/m", "a:b", "a%h0", "a%sb", "{a}", "a{b", "a}b", "a\\b", "a*", "a?b", "[a]",
		"a'b", `a"b`, "a.b", "..", "日本", "🗝", "é", "e\u0301", "a_b", "%", "_", backend.SlotKey("job", 0),
		backend.SlotKey("a:b", 10), backend.SlotKey("n/{a}", 3), strings.Repeat("k", 1600), strings.Repeat("k", 1599),
	}
	for _, key := range keys {
		t.win(a, t.request(key, t.long()))
	}
	t.lists(l, "", false, keys...)
	t.lists(l, "", true, keys...)
}

func listTakesThePrefixAsItIs(t *caseT) {
	a, _, l := t.listPair()
	keys := []string{
		"a", "ab", "abc", "A", "Ab", "a%", "a%b", "a_", "a_b", "a*", "a*b", "a?b", "a[b]", "a\\b", "a'b", "a{b}", "a:b",
		backend.SlotKey("a", 0), backend.SlotKey("a", 1), "b", "ba", "é", "e", "n/a", "n/ab", "N/a", "xa",
	}
	for _, key := range keys {
		t.win(a, t.request(key, t.long()))
	}
	prefixes := append(slices.Clone(keys), "", "a#", "a[", "a\\", "a{", "n/", "%", "_", "*", "?", "[a]", "a.", "^a",
		"e\u0301", "nothing begins so", strings.Repeat("k", 1600))
	for _, prefix := range prefixes {
		var want []string
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		t.lists(l, prefix, false, want...)
	}
}

func listShowsMany(t *caseT) {
	a, b, l := t.listPair()
	names := slices.Collect(maps.Keys(many()))
	t.together(4, func(i int) {
		d := a
		if i%2 == 1 {
			d = b
		}
		for _, name := range names[i*len(names)/4 : (i+1)*len(names)/4] {
			t.win(d, t.request(name, t.long()))
		}
	})
	t.lists(l, "name-", false, names...)
	t.lists(l, "", true, names...)
}

func listLeavesOutRecords(t *caseT) {
	a, b, l := t.listPair()
	r := ability[backend.Records](t, a)
	t.put(r, backend.Record{Key: record1, Value: []byte("x"), TTL: t.long()})
	t.put(r, backend.Record{Key: "job!run/1", Value: []byte("x")})
	t.put(r, backend.Record{Key: "other!run/1", Value: []byte("x")})
	t.win(b, t.request("job", t.long()))
	for _, all := range []bool{false, true} {
		t.lists(l, "", all, "job")
		t.lists(l, "job", all, "job")
		t.lists(l, recordSet, all)
		t.lists(l, "other", all)
	}
}

// listMayBeLeft calls the iterator by hand, since the language panics when an iterator overlooks that it was left.
func listMayBeLeft(t *caseT) {
	a, b, l := t.listPair()
	for _, key := range []string{"a", "b", "c", "d"} {
		t.win(a, t.request(key, t.long()))
	}
	for i := range 40 {
		calls := 0
		t.promptly("a loop over List that is left ends", func() {
			l.List(t.Context(), "", i%2 == 0)(func(_ backend.Entry, err error) bool {
				if err != nil {
					t.Errorf("List yields %v", err)
				}
				calls++
				return calls < 1+i%4
			})
		})
		if want := 1 + i%4; calls != want {
			t.Fatalf("List yields %d times to a loop that is left after %d", calls, want)
		}
	}
	t.promptly("another client works after loops were left", func() { t.win(b, t.request("e", t.long())) })
	t.lists(l, "", false, "a", "b", "c", "d", "e")
}

func listMayBeUsedWithin(t *caseT) {
	a, b, l := t.listPair()
	held := make(map[string]grant)
	for _, key := range []string{"a", "b", "c"} {
		held[key] = t.win(a, t.request(key, t.long()))
	}
	t.promptly("a loop over List that calls the driver ends", func() {
		for e, err := range l.List(t.Context(), "", false) {
			if err != nil {
				t.Fatalf("List yields %v", err)
			}
			g, ok := held[e.Key]
			if !ok {
				continue // acquired below
			}
			if h := t.inspect(b, e.Key); h.Fence != g.Fence() {
				t.Errorf("Inspect(%q) = %+v, want fence %d", e.Key, h, g.Fence())
			}
			t.release(g, 0)
			t.win(b, t.request(e.Key+" again", t.long()))
			t.list(l, "", false)
		}
	})
	t.lists(l, "", false, "a again", "b again", "c again")
}

func listEndsWithItsContext(t *caseT) {
	a, _, l := t.listPair()
	t.win(a, t.request("job", t.long()))
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for want, ctx := range map[error]context.Context{
		context.Canceled:         t.canceled(),
		context.DeadlineExceeded: expired,
	} {
		t.promptly("List with a context that is over ends", func() {
			var last error
			for _, err := range l.List(ctx, "", false) {
				last = err
			}
			t.wraps("List", last, want)
		})
	}
}

// listIsNotMisled returns a case that harms a record that was never taken, and one that is held. An error may come last,
// unless the record is none of ours at all.
func listIsNotMisled(how Damage) func(t *caseT) {
	return func(t *caseT) {
		a, _, l := t.listPair()
		held := []string{"a", "m", "z"}
		for _, key := range append([]string{"g"}, held...) {
			t.win(a, t.request(key, t.long()))
		}
		t.cfg.Corrupt(t, "f", how)
		t.cfg.Corrupt(t, "g", how)
		for _, all := range []bool{false, true} {
			found, err := t.listed(l, "", all)
			if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, held) {
				t.Errorf("List(all: %t) yields %q beside records that are %v, want %q", all, got, how, held)
			}
			if err == nil || how != WrongType && backend.KindOf(err) == backend.Misconfigured {
				continue
			}
			t.Errorf("List(all: %t) yields %v, of kind %v, beside records that are %v", all, err, backend.KindOf(err), how)
		}
	}
}
