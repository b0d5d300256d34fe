package hazelcastleader_test

import (
	"testing"

	"github.com/goleader/leader/backend/backendtest"
)

func TestGroup_Oracle_CountsAtMostNLeaders(t *testing.T) {
	backendtest.GroupOracle(t, backendtest.OracleConfig{
		Start: func(t testing.TB) string { t.Helper(); return unharmed(t).Addr() },
		Dial:  dial,
		TCP:   true,
	})
}
