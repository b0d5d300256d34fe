package sqltest

import (
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/internal/testserver"
)

// mysqlVariants are the ways in which the dialect is tested.
var mysqlVariants = map[string]struct {
	clientFoundRows bool
	isolation       string // "" = the server's, REPEATABLE-READ
	asOnMySQL       bool   // with the statements that MySQL gets, which MariaDB understands too
}{
	"default":         {},
	"clientFoundRows": {clientFoundRows: true, isolation: "READ-COMMITTED"},
	"serializable":    {isolation: "SERIALIZABLE"},
	"MySQL":           {asOnMySQL: true},
}

// mariaDB returns a server with the driver in one of its variants.
func mariaDB(t testing.TB, variant string) *database {
	t.Helper()
	server := testserver.MariaDB(t)
	v := mysqlVariants[variant]
	d := &database{server: server, dialect: sqlleader.MySQL(), placeholder: "?"}
	d.dialect.Blocking = false
	if v.asOnMySQL {
		d.dialect = mysqlOnly(d.dialect)
	}
	d.connect = func(t testing.TB, addr, schema string) *sql.DB {
		t.Helper()
		return openMySQL(t, server, func(c *mysql.Config) {
			c.Addr, c.DBName, c.ClientFoundRows = addr, schema, v.clientFoundRows
			c.Params = map[string]string{}
			if v.isolation != "" {
				c.Params["tx_isolation"] = "'" + v.isolation + "'"
			}
			if v.asOnMySQL {
				c.Params["innodb_lock_wait_timeout"] = "1"
			}
		})
	}
	d.admin = d.connect(t, server.Addr(), "")
	return d
}

// mariaDBOnly is what only MariaDB reads of a statement.
var mariaDBOnly = regexp.MustCompile(`/\*M!.*?\*/`)

// mysqlOnly returns d without what only MariaDB understands: it reads before it writes.
func mysqlOnly(d sqlleader.Dialect) sqlleader.Dialect {
	d.Take = sqlleader.Statement{}
	for _, s := range []*sqlleader.Statement{
		&d.Acquire, &d.Create, &d.Renew, &d.Release, &d.Abandon, &d.Break,
		&d.Records.Create, &d.Records.Replace, &d.Records.Delete, &d.Records.Sweep,
	} {
		s.Text = mariaDBOnly.ReplaceAllLiteralString(s.Text, "/* */")
	}
	return d
}

// openMySQL opens a handle of server with a configuration that set changes.
func openMySQL(t testing.TB, server *testserver.Server, set func(*mysql.Config)) *sql.DB {
	t.Helper()
	u := urlAt(t, server, server.Addr())
	c := mysql.NewConfig()
	c.Net, c.User, c.Timeout = "tcp", u.User.Username(), 5*time.Second
	c.Passwd, _ = u.User.Password()
	c.Logger = &mysql.NopLogger{} // it complains of each of many faults
	set(c)
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestMySQL_Conformance(t *testing.T) {
	for name := range mysqlVariants {
		t.Run(name, func(t *testing.T) { mariaDB(t, name).conformance(t) })
	}
}

// On MySQL nothing but the setting in the DSN ends a wait for a row.
func TestMySQL_LockWaitTimeout_OfTheDSN_BoundsAStatement(t *testing.T) {
	d := mariaDB(t, "MySQL")
	b, db := d.open(t, d.newSchema(t))
	l := win(t, b, request("a", long))
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), "UPDATE leader_leases SET owner = 'a stranger'"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	wantKind(t, "Renew", l.Renew(t.Context(), long), backend.Unavailable)
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it took %v", took)
	}
	// The attempt only reads.
	if h := refused(t, b, "a"); h.Owner != "node-1" {
		t.Errorf("holder %+v", h)
	}
}

// One of many wins each round, also the first row of a name, which all of them want to insert.
func TestMySQL_Contenders_ElectExactlyOne(t *testing.T) {
	const contenders, rounds = 20, 50
	for name := range mysqlVariants {
		t.Run(name, func(t *testing.T) {
			d := mariaDB(t, name)
			schema := d.newSchema(t)
			backends := make([]*sqlleader.Backend, contenders)
			for i := range backends {
				var db *sql.DB
				backends[i], db = d.open(t, schema)
				db.SetMaxOpenConns(1)
			}
			for round := range rounds {
				key := "always"
				if round%2 == 1 {
					key = fmt.Sprint("new ", round)
				}
				won := make(chan backend.Lease, contenders)
				var attempts sync.WaitGroup
				for _, b := range backends {
					attempts.Go(func() {
						l, err := b.TryAcquire(t.Context(), request(key, long))
						if err == nil {
							won <- l
						} else if !errors.Is(err, backend.ErrHeld) {
							t.Errorf("TryAcquire(%q): %v", key, err)
						}
					})
				}
				attempts.Wait()
				if len(won) != 1 {
					t.Fatalf("round %d has %d winners", round, len(won))
				}
				if err := (<-won).Release(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
