package backendtest

import (
	"strings"

	"github.com/goleader/leader/backend"
)

func keyCases() []testCase {
	long := strings.Repeat("k", 1599)
	return []testCase{
		{
			name: "Keys_KeepTheirCase",
			rule: ruleKeys,
			says: "keys that differ in case are different",
			run:  areDistinct("job", "Job", "JOB", "jOb", "é", "É", "ß", "SS", "ss", "i", "I", "ı", "İ"),
		},
		{
			name: "Keys_KeepTheirSpaces",
			rule: ruleKeys,
			says: "keys that differ in spaces are different",
			run:  areDistinct("a b", "a  b", "ab", "a b ", "a b  ", " a b", " ", "  ", "a\u00a0b", "a\u200bb", "a\u3000b"),
		},
		{
			name: "Keys_KeepTheirAccents",
			rule: ruleKeys,
			says: "keys that differ in accents, or in how these are composed, are different",
			run: areDistinct("resume", "resumé", "résumé", "re\u0301sume\u0301", "\u00e5", "a\u030a",
				"日本", "日木", "ｊob", "🗝", "🗝\ufe0f", "ﬁ", "fi"),
		},
		{
			name: "Keys_KeepTheirSymbols",
			rule: ruleKeys,
			says: "no symbol in a key is dropped, replaced or taken for a pattern, a path or syntax",
			run: areDistinct(
				"ab", "a_b", "a-b", "a.b", "a,b", "a:b", "a;b", "a|b", "a~b", "a=b", "a&b", "a+b", "a@b", "a^b",
				"a$b", "a`b", "a/b", "a//b", "/a/b", "a/b/", "a/../b", "..", ".", "a\\b", "a\\\\b", "a'b", "a''b",
				`a"b`, "a*b", "*", "a?b", "?", "a[b]", "[ab]", "a(b)", "<ab>", "a--b", "a{b}", "{a}b", "{ab}",
				"{}", "}{", "a{}b", "a}{b", "a%b", "a%%b", "a%2Fb", "a%sb", "a%_b", "a#b", "a!b",
				"a%sa%hb",
			),
		},
		{
			name: "Keys_MayBeLong",
			rule: ruleKeys,
			says: "keys have up to 1,600 bytes, and each of them counts",
			run: areDistinct(long, long+"a", long+"b", "a"+long, long[:1598]+"é", long[:255], long[:256], long[:511],
				long[:512], long[:767], long[:768], long[:1023], long[:1024], strings.Repeat("日", 533)),
		},
		{
			name: "Keys_OfSlotsAreKeys",
			rule: ruleKeys,
			says: "a key and the keys of its slots are different",
			run: areDistinct("job", backend.SlotKey("job", 0), backend.SlotKey("job", 1), backend.SlotKey("job", 10),
				backend.SlotKey("job", 11), "team/job", backend.SlotKey("team/job", 0), "job!run/1", "job!run/2"),
		},
	}
}

// areDistinct returns a case that takes every key at the same time and finds each with its own holder.
func areDistinct(keys ...string) func(t *caseT) {
	return func(t *caseT) {
		a, b := t.pair()
		grants := make([]grant, len(keys))
		for i, key := range keys {
			t.free(b, key)
			grants[i] = t.win(a, t.request(key, t.long()))
		}
		for i, key := range keys {
			if h := t.inspect(b, key); h.Owner != grants[i].req.Owner || h.Fence != grants[i].Fence() {
				t.Errorf("Inspect(%q) = %+v, want owner %q, fence %d", key, h, grants[i].req.Owner, grants[i].Fence())
			}
			t.refused(b, t.request(key, t.long()))
		}
		for i, key := range keys {
			t.release(grants[i], 0)
			t.free(b, key)
		}
	}
}
