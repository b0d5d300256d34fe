package k8sleader_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
)

// oracleEnv tells the processes of the test how to reach what is behind the address that they are given.
const oracleEnv = "K8SLEADER_ORACLE"

func TestGroup_Oracle_CountsAtMostNLeaders(t *testing.T) {
	g := &ground{test: t}
	backendtest.GroupOracle(t, backendtest.OracleConfig{
		Start: func(t testing.TB) string {
			address := g.address(t)
			g.test.Setenv(oracleEnv, address)
			return g.server(t).Addr()
		},
		Dial: func(t testing.TB, addr string) backend.Driver {
			t.Helper()
			_, rest, _ := strings.Cut(os.Getenv(oracleEnv), " ")
			return dialAddress(t, addr+" "+rest)
		},
		TCP:   true,
		Phase: 20 * time.Second, // a slot costs two requests of some milliseconds each
	})
}
