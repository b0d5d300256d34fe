package mysqlleader_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/goleader/leader/backend/mysqlleader"
	"github.com/goleader/leader/internal/testserver"
)

// advised checks that the only warning of b has words in it, or that there is none.
func advised(t testing.TB, b *mysqlleader.Backend, words ...string) {
	t.Helper()
	warnings, err := b.Advise(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != len(words) {
		t.Errorf("warnings %q, want those with %q", warnings, words)
	}
	for _, word := range words {
		if !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, word) }) {
			t.Errorf("warnings %q do not tell of %q", warnings, word)
		}
	}
}

func TestBackend_Advise_WarnsOfWhatMayCostLeases(t *testing.T) {
	b, db, server := startOwned(t)
	advised(t, b)
	advised(t, open(t, connect(t, server, variable("autocommit", "0")), nil), "autocommit")
	one := connect(t, server)
	one.SetMaxOpenConns(1)
	advised(t, open(t, one, nil), "one connection")
	execute(t, db, "SET GLOBAL innodb_flush_log_at_trx_commit = 2")
	advised(t, b, "innodb_flush_log_at_trx_commit is 2")
	execute(t, db, "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
}

func TestBackend_Advise_WarnsOfABinaryLogThatIsNotSynced(t *testing.T) {
	b, db, _ := startOwned(t, testserver.MariaDBConfig("log-bin", "server-id=1", "sync_binlog=0"))
	advised(t, b, "sync_binlog is 0")
	execute(t, db, "SET GLOBAL sync_binlog = 1")
	advised(t, b)
}

func TestBackend_Advise_WarnsOfAReplica(t *testing.T) {
	b, _, _ := startOwned(t, testserver.MariaDBConfig("read_only=1"))
	advised(t, b, "read-only")
}
