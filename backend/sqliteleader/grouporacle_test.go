package sqliteleader_test

import (
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
)

func TestGroup_Oracle_CountsAtMostNLeaders(t *testing.T) {
	backendtest.GroupOracle(t, backendtest.OracleConfig{
		Start: newPath,
		Dial: func(t testing.TB, path string) backend.Driver {
			t.Helper()
			return open(t, path)
		},
		Phase: 4 * time.Second,
	})
}
