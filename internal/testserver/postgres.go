package testserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// PostgresURLEnv is the environment variable with the URL, postgres://user:password@host:port/database, of the
// PostgreSQL that [Postgres] returns instead of starting one. It is not emptied.
const PostgresURLEnv = "LEADER_POSTGRES_URL"

const (
	postgresMissing = `PostgreSQL is not installed: "make servers" does it on Debian and Ubuntu ` +
		`(apt-get install --no-install-recommends postgresql), "brew install postgresql" on macOS; or set ` +
		PostgresURLEnv

	postgresUser     = "leader"
	postgresPassword = "secret"
)

// A PostgresOption changes what [Postgres] starts.
type PostgresOption func(*postgresConfig)

type postgresConfig struct {
	lines []string
}

// PostgresConfig adds lines to postgresql.conf, after ours, so that they win.
func PostgresConfig(lines ...string) PostgresOption {
	return func(c *postgresConfig) { c.lines = append(c.lines, lines...) }
}

// Postgres starts an empty PostgreSQL that ends with the test; its user is a superuser. A commit is on disk before it
// is answered, so that a restart forgets none. Faults hit every process of the server. A root user's test runs it as
// the user postgres, else as nobody, because it refuses to run as root. Without PostgreSQL the test is skipped, see
// [RequireEnv]. If [PostgresURLEnv] names a server it is used, with what is in it, and a test that asks for options is
// skipped.
func Postgres(t TB, opts ...PostgresOption) *Server {
	t.Helper()
	if given := os.Getenv(PostgresURLEnv); given != "" {
		if len(opts) > 0 {
			t.Skipf("this needs a PostgreSQL with a configuration of its own, and %s is set", PostgresURLEnv)
		}
		return givenPostgres(t, given)
	}
	programs, err := postgresPrograms()
	if err != nil {
		missing(t, "postgres", postgresMissing)
	}
	var c postgresConfig
	for _, o := range opts {
		o(&c)
	}
	p, addr, err := c.launch(t, programs)
	if err != nil {
		t.Fatalf("%v", err)
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(postgresUser, postgresPassword), Host: addr, Path: "/postgres",
		RawQuery: "sslmode=disable",
	}
	return &Server{addr: addr, url: u.String(), password: postgresPassword, process: p}
}

func givenPostgres(t TB, given string) *Server {
	t.Helper()
	u, err := url.Parse(given)
	if err != nil || !slices.Contains([]string{"postgres", "postgresql"}, u.Scheme) || u.Port() == "" {
		t.Fatalf("%s: want postgres://user:password@host:port/database", PostgresURLEnv)
	}
	password, _ := u.User.Password()
	ctx, cancel := context.WithTimeout(t.Context(), lookTimeout)
	defer cancel()
	answer, err := askPostgres(ctx, u.Host, postgresSSLRequest)
	if err == nil && answer != 'S' && answer != 'N' {
		err = fmt.Errorf("%s is no PostgreSQL", u.Host)
	}
	if err != nil {
		t.Fatalf("%s: %v", PostgresURLEnv, err)
	}
	return &Server{addr: u.Host, url: given, password: password}
}

// postgresPrograms returns the folder of initdb and postgres. Debian has one for each version, off the path.
func postgresPrograms() (string, error) {
	initdb, err := lookPath("initdb", "/usr/lib/postgresql/*/bin/initdb")
	if err == nil {
		initdb, err = filepath.EvalSymlinks(initdb)
	}
	return filepath.Dir(initdb), err
}

// launch starts a server with a data folder of its own.
func (c *postgresConfig) launch(t TB, programs string) (*process, string, error) {
	t.Helper()
	o, err := ownerIfRoot("postgres", "nobody")
	if err != nil {
		return nil, "", err
	}
	dir := o.tempDir(t)
	data := filepath.Join(dir, "data")
	initdb := []string{
		"--username=" + postgresUser, "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync",
	}
	m := template{name: "postgres", program: filepath.Join(programs, "postgres"), recipe: initdb}
	err = m.unpack(t, dir, o, func(dir string) error {
		return initPostgres(t.Context(), filepath.Join(programs, "initdb"), initdb, dir, o)
	})
	if err != nil {
		return nil, "", err
	}
	p := &process{name: "postgres", path: m.program, args: []string{"-D", data}, dir: dir, owner: o}
	conf := filepath.Join(data, "postgresql.conf")
	initial, err := os.ReadFile(conf)
	if err != nil {
		return nil, "", err
	}
	t.Cleanup(func() {
		p.kill()
		removePostgresMemory(context.WithoutCancel(t.Context()), data)
	})
	_, addr, err := launch(t.Context(), func(port int) (*process, error) {
		p.ready = func(ctx context.Context, pid int) error { return postgresReady(ctx, address(port), data, pid) }
		lines := append(slices.Clip(initial), c.file(port)...)
		return p, os.WriteFile(conf, lines, 0o600) //nolint:gosec // A file of the server's own.
	})
	return p, addr, err
}

func initPostgres(ctx context.Context, program string, args []string, dir string, o *owner) error {
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte(postgresPassword), 0o600); err != nil {
		return err
	}
	if o != nil {
		if err := os.Chown(password, o.uid, o.gid); err != nil {
			return err
		}
	}
	args = append(slices.Clip(args), "--pwfile="+password, "--pgdata="+filepath.Join(dir, "data"))
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = o.attributes(nil)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	return os.Remove(password)
}

func (c *postgresConfig) file(port int) string {
	lines := []string{
		"listen_addresses = '" + host + "'",
		"port = " + strconv.Itoa(port),
		"unix_socket_directories = ''",
		"max_connections = 200",
		"shared_buffers = 32MB",
		// Files of the data folder, which are gone with it. Shared memory would outlive a kill -9.
		"dynamic_shared_memory_type = mmap",
	}
	return strings.Join(append(lines, c.lines...), "\n") + "\n"
}

// removePostgresMemory removes the piece of shared memory by which a killed server's data folder is marked as in use.
// The next start would do so, but there is none, and a system has only some thousands of them.
func removePostgresMemory(ctx context.Context, data string) {
	lines := readPostmaster(data)
	if len(lines) <= postmasterMemory {
		return
	}
	if keyAndID := strings.Fields(lines[postmasterMemory]); len(keyAndID) == 2 {
		_ = exec.CommandContext(ctx, "ipcrm", "-m", keyAndID[1]).Run() //nolint:gosec // A number.
	}
}

// The lines of postmaster.pid in which a server tells its state.
const (
	postmasterPid    = 0
	postmasterMemory = 6
	postmasterStatus = 7
)

func readPostmaster(data string) []string {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return nil
	}
	return strings.Split(string(text), "\n")
}

// postgresReady looks whether the PostgreSQL at addr is the process pid and lets clients in.
func postgresReady(ctx context.Context, addr, data string, pid int) error {
	state := readPostmaster(data)
	if len(state) <= postmasterStatus || state[postmasterPid] != strconv.Itoa(pid) ||
		strings.TrimSpace(state[postmasterStatus]) != "ready" {
		return errors.New("the server says of itself that it is not ready")
	}
	answer, err := askPostgres(ctx, addr, postgresStartup)
	if err == nil && answer != 'R' {
		err = errors.New("the server does not ask for the password")
	}
	return err
}
