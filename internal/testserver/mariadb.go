package testserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// MySQLURLEnv is the environment variable with the URL, mysql://user:password@host:port/database, of the MySQL or
// MariaDB that [MariaDB] returns instead of starting one. It is not emptied.
const MySQLURLEnv = "LEADER_MYSQL_URL"

const (
	mariaDBMissing = `MariaDB is not installed: "make servers" does it on Debian and Ubuntu ` +
		`(apt-get install --no-install-recommends mariadb-server-core), "brew install mariadb" on macOS; or set ` +
		MySQLURLEnv

	mariaDBUser     = "leader"
	mariaDBPassword = "secret"
	mariaDBDatabase = "leader"
)

// mariaDBSetup ends the statements that make the system's tables.
const mariaDBSetup = `
DELETE FROM mysql.global_priv WHERE User <> 'mariadb.sys';
DELETE FROM mysql.proxies_priv;
FLUSH PRIVILEGES;
CREATE USER '` + mariaDBUser + `'@'%' IDENTIFIED BY '` + mariaDBPassword + `';
GRANT ALL ON *.* TO '` + mariaDBUser + `'@'%' WITH GRANT OPTION;
CREATE DATABASE ` + mariaDBDatabase + `;
`

// A MariaDBOption changes what [MariaDB] starts.
type MariaDBOption func(*mariaDBConfig)

type mariaDBConfig struct {
	lines []string
}

// MariaDBConfig adds lines to the section of the server in my.cnf, after ours, so that they win.
func MariaDBConfig(lines ...string) MariaDBOption {
	return func(c *mariaDBConfig) { c.lines = append(c.lines, lines...) }
}

// MariaDB starts a MariaDB with one empty database, the one of the URL, that ends with the test; its user may do
// everything. A commit is on disk before it is answered, so that a restart forgets none. Without MariaDB the test is
// skipped, see [RequireEnv]. If [MySQLURLEnv] names a server it is used, with what is in it, and a test that asks for
// options is skipped.
func MariaDB(t TB, opts ...MariaDBOption) *Server {
	t.Helper()
	if given := os.Getenv(MySQLURLEnv); given != "" {
		if len(opts) > 0 {
			t.Skipf("this needs a MariaDB with a configuration of its own, and %s is set", MySQLURLEnv)
		}
		return givenMariaDB(t, given)
	}
	program, err := lookPath("mariadbd", "/usr/sbin/mariadbd") // Debian has it off the path of users.
	if err != nil {
		missing(t, "mariadb", mariaDBMissing)
	}
	var c mariaDBConfig
	for _, o := range opts {
		o(&c)
	}
	p, addr, err := c.launch(t, program)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(p.kill)
	u := url.URL{
		Scheme: "mysql", User: url.UserPassword(mariaDBUser, mariaDBPassword), Host: addr, Path: "/" + mariaDBDatabase,
	}
	return &Server{addr: addr, url: u.String(), password: mariaDBPassword, process: p}
}

func givenMariaDB(t TB, given string) *Server {
	t.Helper()
	u, err := url.Parse(given)
	if err != nil || u.Scheme != "mysql" || u.Port() == "" {
		t.Fatalf("%s: want mysql://user:password@host:port/database", MySQLURLEnv)
	}
	password, _ := u.User.Password()
	ctx, cancel := context.WithTimeout(t.Context(), lookTimeout)
	defer cancel()
	if err := greetedByMySQL(ctx, u.Host); err != nil {
		t.Fatalf("%s: %v", MySQLURLEnv, err)
	}
	return &Server{addr: u.Host, url: given, password: password}
}

// launch starts a server with a data folder of its own.
func (c *mariaDBConfig) launch(t TB, program string) (*process, string, error) {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, "", err
	}
	args := append(mariaDBArgs(), "--innodb-flush-log-at-trx-commit=0")
	m := template{name: "mariadb", program: program, recipe: append(args, mariaDBSetup)}
	err := m.unpack(t, data, nil, func(dir string) error { return initMariaDB(t.Context(), program, args, dir) })
	if err != nil {
		return nil, "", err
	}
	conf, pidFile := filepath.Join(dir, "my.cnf"), filepath.Join(dir, "mariadb.pid")
	args = append([]string{"--defaults-file=" + conf, "--datadir=" + data, "--pid-file=" + pidFile}, mariaDBArgs()...)
	return launch(t.Context(), func(port int) (*process, error) {
		ready := func(ctx context.Context, pid int) error { return mariaDBReady(ctx, address(port), pidFile, pid) }
		p := &process{name: "mariadb", path: program, args: args, dir: dir, ready: ready}
		return p, os.WriteFile(conf, []byte(c.file(port)), 0o600)
	})
}

// mariaDBArgs returns what does not change, because the data folder depends on it, or because no option is to win.
func mariaDBArgs() []string {
	args := []string{
		"--innodb-log-file-size=16M",
		"--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci", // as Debian has it
	}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root") // It would not run as root unasked.
	}
	return args
}

// initMariaDB makes a data folder of the system's tables and mariaDBSetup.
func initMariaDB(ctx context.Context, program string, args []string, dir string) error {
	tables, err := mariaDBTables(program)
	if err != nil {
		return err
	}
	args = append([]string{"--no-defaults", "--bootstrap", "--datadir=" + dir}, args...)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader("CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n" +
		tables + mariaDBSetup)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "ERROR") {
		return fmt.Errorf("%s: %w\n%s", program, errors.Join(errors.New("no data folder"), err), out)
	}
	return nil
}

// mariaDBTables returns the statements that make the system's tables, which come with the server.
func mariaDBTables(program string) (string, error) {
	program, err := filepath.EvalSymlinks(program)
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, name := range []string{"system_tables.sql", "performance_tables.sql", "system_tables_data.sql"} {
		pattern := filepath.Join(filepath.Dir(filepath.Dir(program)), "share", "m*", "m*_"+name)
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		if len(found) == 0 {
			return "", fmt.Errorf("no %s", pattern)
		}
		text, err := os.ReadFile(found[0])
		if err != nil {
			return "", err
		}
		all.Write(text)
	}
	return all.String(), nil
}

func (c *mariaDBConfig) file(port int) string {
	lines := []string{
		"[mariadbd]",
		"bind-address=" + host,
		"port=" + strconv.Itoa(port),
		"socket=", // none
		"skip-name-resolve",
		"max_connections=200",
		"innodb_flush_log_at_trx_commit=1",
		"innodb_buffer_pool_size=32M",
		"innodb_use_native_aio=0", // The system has few of its requests.
	}
	return strings.Join(append(lines, c.lines...), "\n") + "\n"
}

// mariaDBReady looks whether the MariaDB at addr is the process pid and lets clients in.
func mariaDBReady(ctx context.Context, addr, pidFile string, pid int) error {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(text)) != strconv.Itoa(pid) {
		return errors.New("the server has not yet written its id")
	}
	return greetedByMySQL(ctx, addr)
}

// greetedByMySQL looks whether a server of the MySQL protocol greets a client: a header of four bytes, then the
// version of the protocol, or else of the error.
func greetedByMySQL(ctx context.Context, addr string) error {
	conn, err := dialWire(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	var greeting [5]byte
	if _, err := io.ReadFull(conn, greeting[:]); err != nil {
		return err
	}
	if version := greeting[4]; version != 10 {
		return fmt.Errorf("%s is greeted with version %d of the MySQL protocol", addr, version)
	}
	return nil
}
