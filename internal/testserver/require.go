package testserver

import (
	"os"
	"slices"
	"strings"
)

// RequireEnv is the environment variable with the names of the servers that tests must not do without, separated by
// commas, or "all". The names are those of the functions in lower case: "redis".
const RequireEnv = "LEADER_REQUIRE"

// missing ends a test whose server cannot be started: a failure if RequireEnv names the server, otherwise a skip.
func missing(t TB, name, reason string) {
	t.Helper()
	if required(os.Getenv(RequireEnv), name) {
		t.Fatalf("%s is required by %s: %s", name, RequireEnv, reason)
	}
	t.Skipf("%s", reason)
}

func required(list, name string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(item string) bool {
		item = strings.ToLower(strings.TrimSpace(item))
		return item == "all" || item == name
	})
}
