package pgleader_test

import (
	"testing"

	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/internal/testserver"
)

func TestGroup_Oracle_CountsAtMostNLeaders(t *testing.T) {
	backendtest.GroupOracle(t, backendtest.OracleConfig{
		Start: func(t testing.TB) string { return ownServer(t).Addr() },
		Dial:  dial,
		TCP:   true,
	})
}

// ownServer starts a server that the test may harm.
func ownServer(t testing.TB) *testserver.Server {
	t.Helper()
	server := testserver.Postgres(t)
	if !server.Owned() {
		t.Skip("this needs a server of its own")
	}
	return server
}
