//go:build unix

package testserver

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func ownPostgres(t *testing.T, opts ...PostgresOption) (*Server, sqlConn) {
	t.Helper()
	t.Setenv(PostgresURLEnv, "")
	s := Postgres(t, opts...)
	c, _ := sqlServers["postgres"].connect(t, s)
	return s, c
}

func TestPostgres_IsDurableAndHasRoom(t *testing.T) {
	_, c := ownPostgres(t)
	expectSQL(t, c, "on", "SHOW fsync")
	expectSQL(t, c, "on", "SHOW synchronous_commit")
	expectSQL(t, c, "200", "SHOW max_connections")
	expectSQL(t, c, "UTF8", "SHOW server_encoding")
	expectSQL(t, c, "t", "SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
}

func TestPostgres_Config_Wins(t *testing.T) {
	_, c := ownPostgres(t, PostgresConfig("max_connections = 20", "default_transaction_isolation = 'serializable'"))
	expectSQL(t, c, "20", "SHOW max_connections")
	expectSQL(t, c, "serializable", "SHOW transaction_isolation")
}

func TestPostgres_IsNotMistakenForAnotherOnItsPort(t *testing.T) {
	s, _ := ownPostgres(t)
	data := filepath.Join(s.process.dir, "data")
	if err := postgresReady(t.Context(), s.Addr(), data, s.process.child.process.Pid); err != nil {
		t.Error(err)
	}
	if err := postgresReady(t.Context(), s.Addr(), data, os.Getpid()); err == nil {
		t.Error("another process was taken for the server")
	}
}

func TestPostgres_LeavesNothingBehind(t *testing.T) {
	ownPostgres(t) // or skip
	for name, last := range map[string]func(s *Server){
		"running": func(*Server) {},
		"stopped": func(s *Server) { s.Stop(t) },
		"killed":  func(s *Server) { s.Kill9(t) },
	} {
		var s *Server
		var pids []int
		var memory string
		err := Run(t.Context(), func(tb TB) {
			s = Postgres(tb)
			pid := s.process.child.process.Pid
			backends, err := children(pid)
			if err != nil || len(backends) == 0 {
				tb.Fatalf("children %v, %v", backends, err)
			}
			pids = append([]int{pid}, backends...)
			memory = strings.Fields(readPostmaster(filepath.Join(s.process.dir, "data"))[postmasterMemory])[1]
			last(s)
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if slices.ContainsFunc(pids, alive) {
			t.Errorf("%s: one of %v is alive", name, pids)
		}
		if _, err := os.Stat(s.process.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the data folder: %v", name, err)
		}
		if out, err := exec.CommandContext(t.Context(), "ipcs", "-m", "-i", memory).CombinedOutput(); err == nil &&
			strings.Contains(string(out), "shmid="+memory) {
			t.Errorf("%s: shared memory: %s", name, out)
		}
	}
}
