package testserver

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func ownMariaDB(t *testing.T, opts ...MariaDBOption) (*Server, sqlConn) {
	t.Helper()
	t.Setenv(MySQLURLEnv, "")
	s := MariaDB(t, opts...)
	c, _ := sqlServers["mariadb"].connect(t, s)
	return s, c
}

func TestMariaDB_IsDurableAndHasRoom(t *testing.T) {
	_, c := ownMariaDB(t)
	expectSQL(t, c, "1", "SELECT @@innodb_flush_log_at_trx_commit")
	expectSQL(t, c, "200", "SELECT @@max_connections")
	expectSQL(t, c, "utf8mb4", "SELECT @@character_set_database")
	expectSQL(t, c, "InnoDB", "SELECT @@default_storage_engine")
	expectSQL(t, c, "mariadb.sys,"+mariaDBUser, "SELECT User FROM mysql.global_priv ORDER BY User DESC")
}

func TestMariaDB_Config_Wins(t *testing.T) {
	_, c := ownMariaDB(t, MariaDBConfig("max_connections=20", "wait_timeout=2"))
	expectSQL(t, c, "20", "SELECT @@global.max_connections")
	expectSQL(t, c, "2", "SELECT @@global.wait_timeout")
}

func TestMariaDB_IsNotMistakenForAnotherOnItsPort(t *testing.T) {
	s, _ := ownMariaDB(t)
	pidFile := filepath.Join(s.process.dir, "mariadb.pid")
	if err := mariaDBReady(t.Context(), s.Addr(), pidFile, s.process.child.process.Pid); err != nil {
		t.Error(err)
	}
	if err := mariaDBReady(t.Context(), s.Addr(), pidFile, os.Getpid()); err == nil {
		t.Error("another process was taken for the server")
	}
}

func TestMariaDB_LeavesNothingBehind(t *testing.T) {
	ownMariaDB(t) // or skip
	var s *Server
	if err := Run(t.Context(), func(tb TB) { s = MariaDB(tb) }); err != nil {
		t.Fatal(err)
	}
	if s.process.running() {
		t.Error("the server outlived Run")
	}
	if _, err := os.Stat(s.process.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data folder: %v", err)
	}
}
