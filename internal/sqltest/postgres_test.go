package sqltest

import (
	"database/sql"
	"net/url"
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
	return postgresOn(t, testserver.Postgres(t, opts...), driver)
}

func postgresOn(t testing.TB, server *testserver.Server, driver string) *database {
	t.Helper()
	d := &database{server: server, dialect: sqlleader.PostgreSQL(), placeholder: "$1"}
	d.dialect.Blocking = driver == "postgres"
	d.connect = func(t testing.TB, addr, schema string) *sql.DB {
		t.Helper()
		u := urlAt(t, server, addr)
		parameters := u.Query()
		parameters.Set("connect_timeout", "5")
		if schema != "" {
			parameters.Set("search_path", schema)
		}
		if driver == "postgres" {
			parameters.Set("binary_parameters", "yes")
		}
		u.RawQuery = parameters.Encode()
		return openPool(t, driver, u)
	}
	d.admin = d.connect(t, server.Addr(), "")
	return d
}

func openPool(t testing.TB, driver string, u *url.URL) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, u.String())
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
