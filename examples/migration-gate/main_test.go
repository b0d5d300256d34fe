package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/pgleader"
	"github.com/goleader/leader/examples/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

const processes = 6

func TestMigrationGate_ProcessesThatBootAtOnce_MigrateOnce(t *testing.T) {
	s := newService(t)
	counts := s.bootAll(processes)
	if counts["migrated"] != 1 || counts["already applied"] != processes-1 {
		t.Errorf("%v; want that one migrated, and that the others found it done", counts)
	}
	s.checkVersions(1, 2)
	if again := s.bootAll(processes); again["already applied"] != processes {
		t.Errorf("the second boots: %v; want that all found it done", again)
	}
}

func TestMigrationGate_WhileAnotherMigrates_SkipsOrWaits(t *testing.T) {
	s := newService(t)
	// A migration that takes as long as the test has the lock.
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock(4711)`); err != nil {
		t.Fatal(err)
	}
	dir := "-migrations=" + s.migrations(`SELECT pg_advisory_xact_lock(4711)`)
	busy := s.boot("busy", dir)
	busy.Await(t, `leads: migrates from version 0`)

	hasty := s.boot("hasty", dir, "-wait=1s")
	hasty.Await(t, `skipped: another process migrates: busy`)
	patient := s.boot("patient", dir)
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_unlock(4711)`); err != nil {
		t.Fatal(err)
	}
	busy.Await(t, `migrated: from version 0 to 1 under fence \d+\n`)
	patient.Await(t, `already applied: version 1`)
	for p, want := range map[*exampletest.Process]int{busy: 0, hasty: 1, patient: 0} {
		if code := p.Wait(t); code != want {
			t.Errorf("a process ended with %d, want %d:\n%s", code, want, p.Output())
		}
	}
}

func TestMigrationGate_AMigrationFails_LeavesNothingAndTheNextBootCanSucceed(t *testing.T) {
	s := newService(t)
	const good, bad = `CREATE TABLE a (n int)`, `CREATE TABLE b (n int); INSERT INTO nowhere VALUES (1)`
	first := s.boot("first", "-migrations="+s.migrations(good, bad))
	first.Await(t, `failed: 0002_test.sql: .*nowhere`)
	if code := first.Wait(t); code != 1 {
		t.Errorf("the process that failed ended with %d, want 1", code)
	}
	s.checkVersions(1) // the good one stays, the bad one left nothing
	second := s.boot("second", "-migrations="+s.migrations(good, strings.ReplaceAll(bad, "nowhere", "b")))
	second.Await(t, `migrated: from version 1 to 2`)
	s.checkVersions(1, 2)
}

func TestSchema_Apply_UnderALeaseThatIsOver_LeavesNothing(t *testing.T) {
	s := newService(t)
	b := pgleader.New(s.pool, &pgleader.Options{CreateTable: true})
	defer b.Close()
	elector, err := leader.New(b)
	if err != nil {
		t.Fatal(err)
	}
	held, err := elector.Acquire(t.Context(), name, leader.WithWaitTime(time.Minute)) // it tries again
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	migrations, err := load("")
	if err != nil {
		t.Fatal(err)
	}
	database := schema{s.pool, b, migrations}
	if err := database.apply(t.Context(), held, migrations[0]); !errors.Is(err, leader.ErrLeaseLost) {
		t.Errorf("a migration under a lease that is over: %v, want %v", err, leader.ErrLeaseLost)
	}
	if version, err := database.version(t.Context()); version != 0 || err != nil {
		t.Errorf("the schema is of version %d, %v; want 0", version, err)
	}
}

// service is a database, which is a schema of its own, and the program that boots on it.
type service struct {
	t       *testing.T
	program string
	url     string
	pool    *pgxpool.Pool
	boots   int
}

func newService(t *testing.T) *service {
	t.Helper()
	u, err := url.Parse(testserver.Postgres(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	space := fmt.Sprintf("gate_%d", time.Now().UnixNano()) // the server may be one that lives on
	query := u.Query()
	query.Set("search_path", space)
	u.RawQuery = query.Encode()
	pool, err := pgxpool.New(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `CREATE SCHEMA `+space); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer pool.Close()
		ctx := context.WithoutCancel(t.Context())
		if _, err := pool.Exec(ctx, `DROP SCHEMA `+space+` CASCADE`); err != nil {
			t.Error(err)
		}
	})
	return &service{t: t, program: exampletest.Build(t), url: u.String(), pool: pool}
}

// migrations writes a folder with one migration for each text.
func (s *service) migrations(texts ...string) (folder string) {
	s.t.Helper()
	folder = s.t.TempDir()
	for i, text := range texts {
		path := filepath.Join(folder, fmt.Sprintf("%04d_test.sql", i+1))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	return folder
}

func (s *service) boot(node string, args ...string) *exampletest.Process {
	s.t.Helper()
	return exampletest.Start(s.t, s.program, append([]string{"-postgres", s.url, "-node", node}, args...)...)
}

// bootAll boots n processes at once and counts what became of them.
func (s *service) bootAll(n int) map[string]int {
	s.t.Helper()
	var all []*exampletest.Process
	for range n {
		s.boots++
		all = append(all, s.boot(fmt.Sprint("node-", s.boots)))
	}
	counts := make(map[string]int)
	for _, p := range all {
		became := p.Await(s.t, `(?m)^(migrated|already applied|skipped|failed): `)[1]
		counts[became]++
		ready := became == "migrated" || became == "already applied"
		if code := p.Wait(s.t); (code == 0) != ready {
			s.t.Errorf("a process ended with %d: %s", code, became)
		}
	}
	return counts
}

// checkVersions fails unless the database has seen these migrations, each under a lease.
func (s *service) checkVersions(want ...int) {
	s.t.Helper()
	var got []int
	err := s.pool.QueryRow(s.t.Context(),
		`SELECT array_agg(version ORDER BY version) FROM schema_version WHERE fence > 0`).Scan(&got)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("the database has seen migrations %v, %v; want %v", got, err, want)
	}
}
