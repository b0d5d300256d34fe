package history_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goleader/leader/history"
)

var errSyntax = errors.New("Error 1064 (42000): You have an error in your SQL syntax")

// mysql takes statements as MySQL does, as far as a migration goes: it does not know IF NOT EXISTS for an index.
type mysql struct {
	indexes []string
	refuses bool
}

var plainIndex = regexp.MustCompile(`^CREATE INDEX (\w+) ON [\w.]+ \((\w+, )+id\)$`)

func (m *mysql) ExecContext(_ context.Context, text string, _ []driver.NamedValue) (driver.Result, error) {
	if strings.HasPrefix(text, "CREATE TABLE IF NOT EXISTS ") {
		return driver.ResultNoRows, nil
	}
	found := plainIndex.FindStringSubmatch(text)
	switch {
	case found == nil:
		return nil, errSyntax
	case m.refuses:
		return nil, errors.New("Error 1142 (42000): INDEX command denied")
	case slices.Contains(m.indexes, found[1]):
		return nil, errors.New("Error 1061 (42000): Duplicate key name '" + found[1] + "'")
	}
	m.indexes = append(m.indexes, found[1])
	return driver.ResultNoRows, nil
}

func (m *mysql) Connect(context.Context) (driver.Conn, error) { return m, nil }
func (m *mysql) Driver() driver.Driver                        { return nil }
func (m *mysql) Prepare(string) (driver.Stmt, error)          { return nil, errSyntax }
func (m *mysql) Begin() (driver.Tx, error)                    { return nil, errSyntax }
func (m *mysql) Close() error                                 { return nil }

func sinkOn(t *testing.T, m *mysql, table string) *history.SQL {
	t.Helper()
	db := sql.OpenDB(m)
	t.Cleanup(func() { _ = db.Close() })
	s, err := history.NewSQL(db, &history.SQLOptions{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSQL_Migrate_CreatesEachIndexOnceWhereIfNotExistsIsUnknown(t *testing.T) {
	for _, table := range []string{"runs", "app.runs"} {
		m := &mysql{}
		s := sinkOn(t, m, table)
		for range 2 {
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if want := []string{"runs_written", "runs_name_written", "runs_status_written"}; !slices.Equal(m.indexes, want) {
			t.Errorf("%s: %v, want %v", table, m.indexes, want)
		}
	}
}

func TestSQL_Migrate_SaysWhyThereIsNoIndex(t *testing.T) {
	err := sinkOn(t, &mysql{refuses: true}, "").Migrate(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "history: create index: ") || !strings.Contains(err.Error(), "denied") {
		t.Errorf("%v", err)
	}
}

func TestSQL_Migrate_TellsTheIndexesOfLongNamesApart(t *testing.T) {
	m := &mysql{}
	for _, end := range []string{"a", "b"} {
		if err := sinkOn(t, m, strings.Repeat("x", 62)+end).Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(m.indexes)
	if len(slices.Compact(m.indexes)) != 6 {
		t.Errorf("%v are not six", m.indexes)
	}
	for _, name := range m.indexes {
		if len(name) > 63 {
			t.Errorf("%s has %d bytes", name, len(name))
		}
	}
}
