package sqltest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goleader/leader"
)

// TestPostgreSQL_Isolation_ElectsOneARound lets 50 connections contend under an isolation that is not the default. The
// names of every other round have been led before, so that both ways to a lease are tried: a new row, and an old one.
func TestPostgreSQL_Isolation_ElectsOneARound(t *testing.T) {
	const electors = 50
	for _, test := range []struct {
		driver, isolation string
		rounds            int
	}{
		{"pgx", "serializable", 1000},
		{"postgres", "serializable", 50},
		{"pgx", "repeatable read", 50},
		{"postgres", "repeatable read", 50},
	} {
		t.Run(test.isolation+"/"+test.driver, func(t *testing.T) {
			d := postgres(t, test.driver)
			execute(t, d.admin, "ALTER DATABASE postgres SET default_transaction_isolation = '"+test.isolation+"'")
			schema := d.newSchema(t)
			contenders := make([]*leader.Single, electors)
			for i := range contenders {
				b, db := d.open(t, schema)
				db.SetMaxOpenConns(1)
				if got := queryOne[string](t, db, "SHOW transaction_isolation"); got != test.isolation {
					t.Fatalf("the isolation is %s", got)
				}
				contenders[i] = elector(t, b)
			}
			began, rounds := time.Now(), 0
			for rounds < test.rounds && (rounds < 50 || time.Since(began) < 30*time.Second) && !t.Failed() {
				name := fmt.Sprint("round-", rounds)
				if rounds%2 == 1 {
					elect(t, contenders[:1], name)
				}
				elect(t, contenders, name, leader.WithMinLease(time.Minute))
				rounds++
			}
			t.Logf("%d rounds in %v", rounds, time.Since(began))
		})
	}
}

// elect lets all run at once and checks that exactly one did.
func elect(t testing.TB, contenders []*leader.Single, name string, opts ...leader.RunOption) {
	t.Helper()
	var elected atomic.Int32
	var running sync.WaitGroup
	for _, e := range contenders {
		running.Go(func() {
			r, err := e.RunIfLeader(t.Context(), name, func(context.Context) error { return nil }, opts...)
			switch {
			case err != nil:
				t.Errorf("%s: %v", name, err)
			case r.OK():
				elected.Add(1)
			case r.Reason != leader.Contended:
				t.Errorf("%s: %v", name, r)
			}
		})
	}
	running.Wait()
	if n := elected.Load(); n != 1 {
		t.Errorf("%s: %d were elected", name, n)
	}
}
