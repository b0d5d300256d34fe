package main

import (
	"database/sql"
	"fmt"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/goleader/leader/examples/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

// shop is the database, and the name that the program gets for it.
func shop(t *testing.T) (db *sql.DB, dsn string) {
	t.Helper()
	u, err := url.Parse(testserver.MariaDB(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName, config.User = "tcp", u.Host, u.Path[1:], u.User.Username()
	config.Passwd, _ = u.User.Password()
	if db, err = sql.Open("mysql", config.FormatDSN()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db, config.FormatDSN()
}

func order(t *testing.T, db *sql.DB, tenant string, amount int) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), `INSERT INTO orders (tenant, amount) VALUES (?, ?)`, tenant, amount); err != nil {
		t.Fatal(err)
	}
}

// awaitTotal waits until a total is in the table, and returns the fence under which it was written.
func awaitTotal(t *testing.T, db *sql.DB, tenant string, want int) (fence uint64) {
	t.Helper()
	var total int
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		err := db.QueryRowContext(t.Context(), `SELECT total, fence FROM totals WHERE tenant = ?`, tenant).Scan(&total, &fence)
		if err == nil && total == want {
			return fence
		}
	}
	t.Fatalf("the total of %s is %d, want %d", tenant, total, want)
	return 0
}

func TestTenantAggregator_EachTenantHasALeaderOfItsOwn(t *testing.T) {
	db, dsn := shop(t)
	path := exampletest.Build(t)
	a := exampletest.Start(t, path, "-dsn", dsn, "-node", "a", "-tenants", "acme,globex")
	a.Await(t, `a leads acme`)
	a.Await(t, `a leads globex`)
	b := exampletest.Start(t, path, "-dsn", dsn, "-node", "b", "-tenants", "acme,globex,initech")
	b.Await(t, `b leads initech`)
	fences := map[string]uint64{}
	for i, tenant := range []string{"acme", "globex", "initech"} {
		order(t, db, tenant, 10+i)
		order(t, db, tenant, 100)
		fences[tenant] = awaitTotal(t, db, tenant, 110+i)
	}

	// What goes wrong with one tenant is tried again, and does not touch the others.
	order(t, db, "globex", -1000)
	a.Await(t, `globex: the orders of globex add up to -889, which cannot be`)
	order(t, db, "acme", 1)
	if fence := awaitTotal(t, db, "acme", 111); fence != fences["acme"] {
		t.Errorf("acme had fence %d and has %d, want that its leader went on", fences["acme"], fence)
	}
	order(t, db, "globex", 1000)
	awaitTotal(t, db, "globex", 111)

	// The tenants of a dead process go to the others.
	a.Kill(t)
	for i, tenant := range []string{"acme", "globex"} {
		fence, _ := strconv.ParseUint(b.Await(t, fmt.Sprintf(`b leads %s, fence (\d+)`, tenant))[1], 10, 64)
		order(t, db, tenant, 5)
		if got := awaitTotal(t, db, tenant, 116); got < fence || got <= fences[tenant] {
			t.Errorf("%d: the total of %s was written under fence %d, want %d or more", i, tenant, got, fence)
		}
	}
}
