package testserver

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// sqlConn is a connection to either SQL server.
type sqlConn interface {
	do(statement string) (string, error)
}

// sqlServer is what the tests of both SQL servers need to know of each.
type sqlServer struct {
	env   string
	start func(t TB) *Server
	wrong func(t TB) *Server // with a configuration that it refuses
	dial  func(ctx context.Context, addr, password string) (sqlConn, net.Conn, error)
	sleep string // a statement that takes a minute
}

var sqlServers = map[string]sqlServer{
	"postgres": {
		env:   PostgresURLEnv,
		start: func(t TB) *Server { t.Helper(); return Postgres(t) },
		wrong: func(t TB) *Server { t.Helper(); return Postgres(t, PostgresConfig("nonsense = 1")) },
		dial: func(ctx context.Context, addr, password string) (sqlConn, net.Conn, error) {
			c, err := dialPostgres(ctx, addr, password)
			if err != nil {
				return nil, nil, err
			}
			return c, c.conn, nil
		},
		sleep: "SELECT pg_sleep(60)",
	},
	"mariadb": {
		env:   MySQLURLEnv,
		start: func(t TB) *Server { t.Helper(); return MariaDB(t) },
		wrong: func(t TB) *Server { t.Helper(); return MariaDB(t, MariaDBConfig("nonsense=1")) },
		dial: func(ctx context.Context, addr, password string) (sqlConn, net.Conn, error) {
			c, err := dialMariaDB(ctx, addr, password)
			if err != nil {
				return nil, nil, err
			}
			return c, c.conn, nil
		},
		sleep: "SELECT SLEEP(60)",
	},
}

// forEachSQL runs a test on each server that is started here, whatever the environment says.
func forEachSQL(t *testing.T, test func(t *testing.T, kind sqlServer)) {
	t.Helper()
	for name, kind := range sqlServers {
		t.Run(name, func(t *testing.T) {
			t.Setenv(kind.env, "")
			test(t, kind)
		})
	}
}

func (k sqlServer) connect(t *testing.T, s *Server) (sqlConn, net.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	c, conn, err := k.dial(ctx, s.Addr(), s.Password())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return c, conn
}

func (k sqlServer) expect(t *testing.T, s *Server, want, statement string) {
	t.Helper()
	c, _ := k.connect(t, s)
	expectSQL(t, c, want, statement)
}

func expectSQL(t *testing.T, c sqlConn, want, statement string) {
	t.Helper()
	if got, err := c.do(statement); err != nil || got != want {
		t.Fatalf("%s = %q, %v, want %q", statement, got, err, want)
	}
}

func TestSQL_StartsAndAnswers(t *testing.T) {
	forEachSQL(t, func(t *testing.T, kind sqlServer) {
		s := kind.start(t)
		kind.expect(t, s, "42", "SELECT 6 * 7")
		if !s.Owned() || !strings.Contains(s.URL(), ":"+s.Password()+"@"+s.Addr()+"/") {
			t.Errorf("owned %t, URL %s", s.Owned(), s.URL())
		}
	})
}

func TestSQL_AsksForThePassword(t *testing.T) {
	forEachSQL(t, func(t *testing.T, kind sqlServer) {
		s := kind.start(t)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, conn, err := kind.dial(ctx, s.Addr(), "wrong"); err == nil {
			_ = conn.Close()
			t.Error("a wrong password was accepted")
		} else if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a wrong password was not answered: %v", err)
		}
	})
}

func TestSQL_ServersOfOneTestShareNothing(t *testing.T) {
	forEachSQL(t, func(t *testing.T, kind sqlServer) {
		a, b := kind.start(t), kind.start(t)
		kind.expect(t, a, "", "CREATE TABLE t (v varchar(9))")
		kind.expect(t, b, "", "CREATE TABLE t (v varchar(9))")
	})
}

func TestSQL_Restart_KeepsDataAndAddressWhileClientsAreBusy(t *testing.T) {
	forEachSQL(t, func(t *testing.T, kind sqlServer) {
		s := kind.start(t)
		addr := s.Addr()
		kind.expect(t, s, "", "CREATE TABLE t (v varchar(9))")
		kind.expect(t, s, "", "INSERT INTO t VALUES ('kept')")
		busy, _ := kind.connect(t, s)
		ended := make(chan error, 1)
		go func() {
			_, err := busy.do(kind.sleep)
			ended <- err
		}()

		s.Kill9(t)
		if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr); err == nil {
			_ = conn.Close()
			t.Fatal("a killed server accepts connections")
		}
		s.Kill9(t) // no error
		if err := <-ended; err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the busy client: %v", err)
		}
		s.Restart(t)
		kind.expect(t, s, "kept", "SELECT v FROM t")
		s.Restart(t) // while it runs
		kind.expect(t, s, "kept", "SELECT v FROM t")
		if s.Addr() != addr {
			t.Errorf("address %s became %s", addr, s.Addr())
		}
	})
}

func TestSQL_Stop_AnswersNothingUntilCont(t *testing.T) {
	forEachSQL(t, func(t *testing.T, kind sqlServer) {
		s := kind.start(t)
		open, _ := kind.connect(t, s)
		hasty, conn := kind.connect(t, s)
		for range 2 {
			s.Stop(t)
			s.Stop(t) // no error
			if err := conn.SetDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if got, err := hasty.do("SELECT 1"); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a stopped server: %q, %v", got, err)
			}
			s.Cont(t)
			expectSQL(t, open, "1", "SELECT 1")
			hasty, conn = kind.connect(t, s)
		}
	})
}

func TestSQL_Stop_DoesNotHinderRestart(t *testing.T) {
	forEachSQL(t, func(t *testing.T, kind sqlServer) {
		s := kind.start(t)
		_, _ = kind.connect(t, s)
		s.Stop(t)
		s.Restart(t)
		kind.expect(t, s, "1", "SELECT 1")
	})
}

func TestSQL_Config_ThatIsWrongFailsWithTheServersWords(t *testing.T) {
	forEachSQL(t, func(t *testing.T, kind sqlServer) {
		v := judge(t, func(t TB) { kind.wrong(t) })
		if v.skipped != "" {
			t.Skip(v.skipped)
		}
		if !strings.Contains(v.failed, errEnded.Error()) || !strings.Contains(v.failed, "nonsense") {
			t.Errorf("failed with %q", v.failed)
		}
	})
}

func TestSQL_TakesTheServerInTheEnvironment(t *testing.T) {
	forEachSQL(t, func(t *testing.T, kind sqlServer) {
		own := kind.start(t)
		t.Setenv(kind.env, own.URL())
		s := kind.start(t)
		if s.Owned() || s.Addr() != own.Addr() || s.URL() != own.URL() || s.Password() != own.Password() {
			t.Errorf("owned %t, address %s, URL %s", s.Owned(), s.Addr(), s.URL())
		}
		for name, f := range map[string]func(TB){"Kill9": s.Kill9, "options": func(t TB) { kind.wrong(t) }} {
			if v := judge(t, f); v.skipped == "" || v.failed != "" {
				t.Errorf("%s: skipped %q, failed %q", name, v.skipped, v.failed)
			}
		}
		kind.expect(t, s, "1", "SELECT 1")
	})
}

func TestSQL_FailsOnAServerInTheEnvironmentThatCannotBeUsed(t *testing.T) {
	forEachSQL(t, func(t *testing.T, kind sqlServer) {
		own := kind.start(t)
		own.Kill9(t)
		scheme, _, _ := strings.Cut(own.URL(), ":")
		for _, given := range []string{
			own.URL(), own.Addr(), scheme + "://" + host, "http://" + own.Addr(), scheme + "://%",
		} {
			t.Setenv(kind.env, given)
			if v := judge(t, func(t TB) { kind.start(t) }); v.failed == "" {
				t.Errorf("%s was accepted", given)
			}
		}
	})
}
