package redisleader_test

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
)

func TestGroup_Oracle_CountsAtMostNLeaders(t *testing.T) {
	logging.Disable() // the client complains of each of many faults
	t.Cleanup(logging.Enable)
	backendtest.GroupOracle(t, backendtest.OracleConfig{
		Start: func(t testing.TB) string { return ownServer(t).Addr() },
		Dial: func(t testing.TB, addr string) backend.Driver {
			t.Helper()
			return open(t, connectTo(t, addr, ""), nil)
		},
		TCP: true,
	})
}
