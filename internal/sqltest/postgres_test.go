package sqltest

import (
	"database/sql"
	"net/url"
	"os"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/internal/testserver"
)

// postgresDrivers are the drivers that the dialect is tested with, by their names in database/sql.
var postgresDrivers = []string{"pgx", "postgres"}

// postgres returns a server with one of its drivers.
func postgres(t testing.TB, driver string, opts ...testserver.PostgresOption) *database {
	t.Helper()
	return postgresOn(t, startPostgres(t, opts...), driver)
}

// startPostgres starts a server that does not wait for the disk: what it wrote survives a crash of its own all the same.
func startPostgres(t testing.TB, opts ...testserver.PostgresOption) *testserver.Server {
	t.Helper()
	if os.Getenv(testserver.PostgresURLEnv) == "" {
		opts = append([]testserver.PostgresOption{testserver.PostgresConfig("fsync = off")}, opts...)
	}
	return testserver.Postgres(t, opts...)
}

func postgresOn(t testing.TB, server *testserver.Server, driver string) *database {
	t.Helper()
	d := &database{server: server, driver: driver, dialect: sqlleader.PostgreSQL(), placeholder: "$1"}
	d.dialect.Blocking = driver == "postgres"
	d.connect = func(t testing.TB, addr, schema string) *sql.DB {
		t.Helper()
		u := urlAt(t, server, addr)
		if schema != "" {
			u.RawQuery += "&search_path=" + schema
		}
		return openPool(t, driver, u)
	}
	d.admin = d.connect(t, server.Addr(), "")
	return d
}

// openPool opens a handle. Parameters of u that the driver does not know are settings of its sessions.
func openPool(t testing.TB, driver string, u *url.URL) *sql.DB {
	t.Helper()
	parameters := u.Query()
	parameters.Set("connect_timeout", "5")
	if driver == "postgres" && !parameters.Has("binary_parameters") {
		parameters.Set("binary_parameters", "yes")
	}
	of := *u
	of.RawQuery = parameters.Encode()
	db, err := sql.Open(driver, of.String())
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestPostgreSQL_Conformance(t *testing.T) {
	for _, driver := range postgresDrivers {
		t.Run(driver, func(t *testing.T) { postgres(t, driver).conformance(t) })
	}
}
