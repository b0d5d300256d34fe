package mysqlleader_test

import (
	"os"
	"testing"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
)

// oracleEnv tells the processes of the oracle, which get an address, how to log in.
const oracleEnv = "LEADER_TEST_ORACLE_URL"

func TestGroup_Oracle_CountsAtMostNLeaders(t *testing.T) {
	backendtest.GroupOracle(t, backendtest.OracleConfig{
		Start: func(t testing.TB) string {
			t.Helper()
			server := ownServer(t)
			t.Setenv(oracleEnv, server.URL())
			migrated(t, connect(t, server))
			return server.Addr()
		},
		Dial: func(t testing.TB, addr string) backend.Driver {
			t.Helper()
			return open(t, connectTo(t, urlAt(t, os.Getenv(oracleEnv), addr)), nil)
		},
		TCP: true,
	})
}
