package backendtest

import (
	"bytes"
	"strings"

	"github.com/goleader/leader/backend"
)

// maxRecord is the largest value of a record.
const maxRecord = 16 << 10

// recordSetCases are about sets, keys and values.
func recordSetCases() []testCase {
	return []testCase{
		{
			name: "Records_AreSets",
			rule: abilityRecords,
			says: "GetRecords returns the records of its set alone, however alike the names of sets are",
			run:  recordsAreSets,
		},
		{
			name: "Records_KeepTheirIDs",
			rule: abilityRecords,
			says: "ids that differ in case, spaces, accents or symbols are different, and come back as they were given",
			run:  recordsKeepTheirIDs,
		},
		{
			name: "Records_KeepBytes",
			rule: abilityRecords,
			says: "values of any bytes, from none to 16 KiB, come back as they were put",
			run:  recordsKeepBytes,
		},
		{
			name: "Records_OwnTheirBytes",
			rule: abilityRecords,
			says: "the bytes of a value are not shared with the driver",
			run:  recordsOwnTheirBytes,
		},
		{
			name: "Records_MayBeMany",
			rule: abilityRecords,
			says: "GetRecords returns each of 300 records, once",
			run:  recordsMayBeMany,
		},
		{
			name: "Records_AreNoLeases",
			rule: abilityRecords,
			says: "a record is not shown by Inspect and takes no key, and a lease is no record",
			run:  recordsAreNoLeases,
		},
	}
}

func recordsAreSets(t *caseT) {
	a, b := t.recordPair()
	sets := []string{
		"a!x/", "a!xy/", "a!y/", "a!X/", "A!x/", "ab!x/", "a:b!x/", "a%h0!x/", "a#0!x/", "a%!x/", "a_!x/", "a*!x/", "a?!x/",
		"[a]!x/", "{a}!x/", "n/a!x/", "a'!x/", "a !x/", "é!x/", "e\u0301!x/", strings.Repeat("n", 700) + "!x/",
	}
	want := make(map[string]backend.Record)
	for _, set := range sets {
		if found := t.records(b, set); len(found) > 0 {
			t.Fatalf("GetRecords(%q) has %v before the first put", set, found)
		}
		for _, id := range []string{"1", "2"} {
			want[set+id] = t.put(a, backend.Record{Key: set + id, Value: []byte(set + id)})
		}
	}
	for _, set := range sets {
		if found := t.records(b, set); len(found) != 2 {
			t.Errorf("GetRecords(%q) has %d records, want 2", set, len(found))
		}
		for _, id := range []string{"1", "2"} {
			t.stored(b, want[set+id])
		}
	}
	t.remove(b, want["a!x/1"])
	t.noRecord(a, "a!x/1")
	delete(want, "a!x/1")
	for _, r := range want {
		t.stored(a, r)
	}
}

func recordsKeepTheirIDs(t *caseT) {
	a, b := t.recordPair()
	ids := []string{
		"node", "Node", "NODE", "node ", " node", "no  de", "no de", "node-1", "node_1", "node%1", "node*", "n?de", "[node]",
		"{node}", "node:1", "node;1", "no'de", `no"de`, "no`de", `no\de`, `no\\de`, "node%s1", "node%h1", "node%%", "%", "_",
		"*", "nöde", "no\u0308de", "日本", "🗝", "node.1", "..", "node,1", "node=1", "node&1", "node|1", "<node>", "--", "1",
		strings.Repeat("n", 255), strings.Repeat("n", 254) + "m",
	}
	var want []backend.Record
	for _, id := range ids {
		want = append(want, t.put(a, backend.Record{Key: recordSet + id, Value: []byte("of " + id), TTL: longRecord}))
	}
	if found := t.records(b, recordSet); len(found) != len(ids) {
		t.Errorf("GetRecords has %d records, want %d", len(found), len(ids))
	}
	for _, r := range want {
		t.stored(b, r)
	}
	for _, r := range want {
		t.remove(b, r)
		t.noRecord(a, r.Key)
	}
}

func recordsKeepBytes(t *caseT) {
	a, b := t.recordPair()
	all := make([]byte, maxRecord)
	for i := range all {
		all[i] = byte(i)
	}
	r := backend.Record{Key: record1}
	for _, value := range [][]byte{
		nil,
		{},
		{0},
		all[:256],
		[]byte("\xff\xfe not UTF-8 \xc3"),
		[]byte("null"),
		[]byte(`{"a":1}`),
		[]byte(" "),
		[]byte("7"),
		all,
		bytes.Repeat([]byte{0xff}, maxRecord),
		[]byte("short again"),
	} {
		r.Value = value
		r = t.put(a, r)
		t.stored(b, r)
		t.stored(a, r)
	}
}

func recordsOwnTheirBytes(t *caseT) {
	a, _ := t.recordPair()
	value := []byte("value")
	r := t.put(a, backend.Record{Key: record1, Value: value})
	r.Value = []byte("value")
	copy(value, "taken")
	got := t.stored(a, r)
	copy(got.Value, "other")
	t.stored(a, r)
}

func recordsMayBeMany(t *caseT) {
	a, b := t.recordPair()
	ids := many()
	for id := range ids {
		t.put(a, backend.Record{Key: recordSet + id, Value: []byte(id), TTL: longRecord})
	}
	if found := t.records(b, recordSet); len(found) != len(ids) {
		t.Fatalf("GetRecords has %d records, want %d", len(found), len(ids))
	}
}

// many returns more names than stores like to return at once.
func many() map[string]bool {
	names := make(map[string]bool)
	for i := range 300 {
		names["name-"+strings.Repeat("0", i%3)+string(rune('a'+i%26))+"-"+string(rune('a'+i/26))] = true
	}
	return names
}

func recordsAreNoLeases(t *caseT) {
	a, b := t.pair()
	x := ability[backend.Records](t, a)
	y := ability[backend.Records](t, b)
	r := t.put(x, backend.Record{Key: record1, Value: []byte("x"), TTL: longRecord})
	for _, key := range []string{record1, "job", backend.SlotKey("job", 0)} {
		t.free(b, key)
	}
	g := t.win(b, t.request("job", t.long()))
	t.win(b, t.request(backend.SlotKey("job", 0), t.long()))
	if found := t.records(y, recordSet); len(found) != 1 {
		t.Errorf("GetRecords has %v, want one record", found)
	}
	t.remove(y, r)
	t.renewed(g, t.long())
	if h := t.inspect(b, "job"); h.Owner != g.req.Owner {
		t.Errorf("Inspect = %+v after a record was deleted, want owner %s", h, g.req.Owner)
	}
}
