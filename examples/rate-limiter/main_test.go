package main

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/goleader/leader/examples/internal/exampletest"
)

func TestRateLimiter_AllProcessesTogetherKeepTheQuota(t *testing.T) {
	file := filepath.Join(t.TempDir(), "probes.db")
	path := exampletest.Build(t)
	start := func(node string) *exampletest.Process {
		return exampletest.Start(t, path, "-file", file, "-node", node, "-quota", "20")
	}
	a := start("a")
	a.Await(t, `number 20\n`)
	b := start("b")
	a.Kill(t)
	b.Await(t, `b leads, fence \d+\n(.*\n){20}`)
	c := start("c")
	b.Interrupt(t)
	if code := b.Wait(t); code != 0 {
		t.Errorf("b ended with %d", code)
	}
	c.Await(t, `c leads, fence \d+\n(.*\n){20}`)

	probes := read(t, file)
	if len(probes) < 60 {
		t.Fatalf("%d probes", len(probes))
	}
	nodes := map[string]bool{}
	const most = 22 // not in a second: the quota, one that was saved, and one at the edge
	for i, p := range probes {
		nodes[p.node] = true
		if p.number != i+1 {
			t.Fatalf("probe %d has number %d", i+1, p.number)
		}
		if i >= most {
			if took := p.at.Sub(probes[i-most].at); took < time.Second {
				t.Errorf("probes %d to %d came within %v", i+1-most, i+1, took)
			}
		}
	}
	if len(nodes) != 3 {
		t.Errorf("probes by %v, want a, b and c", nodes)
	}
}

type probe struct {
	number int
	node   string
	at     time.Time
}

func read(t *testing.T, file string) []probe {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), `SELECT number, node, at FROM probes ORDER BY number`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []probe
	for rows.Next() {
		var p probe
		var at int64
		if err := rows.Scan(&p.number, &p.node, &at); err != nil {
			t.Fatal(err)
		}
		p.at = time.UnixMicro(at)
		list = append(list, p)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}
