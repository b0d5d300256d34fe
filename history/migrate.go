package history

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// migrations is how often each statement of a migration is tried.
const migrations = 3

// maxIdentifier is the longest name that every database takes as it is.
const maxIdentifier = 63

// duplicateIndex is in the error of MySQL for an index that exists.
const duplicateIndex = "Duplicate key name"

// Schema returns the statements that create the table and its indexes, for migrations of one's own. They may be executed
// repeatedly. MySQL, unlike MariaDB, does not know IF NOT EXISTS for an index: leave it out there, and create each once.
func (s *SQL) Schema() []string {
	statements := []string{s.ddl(createTable, "")}
	for _, columns := range indexes {
		statements = append(statements, s.ddl(createIndex[0], columns))
	}
	return statements
}

// Migrate creates the table and its indexes as far as they do not exist, also the indexes of a table that an older version
// has made. It takes the right to create them, which PostgreSQL gives to the owner of the table. Several processes may do
// so at once. ctx governs the statements.
func (s *SQL) Migrate(ctx context.Context) error {
	if err := s.create(ctx, s.ddl(createTable, "")); err != nil {
		return fmt.Errorf("history: create table: %w", err)
	}
	for _, columns := range indexes {
		if err := s.createIndex(ctx, columns); err != nil {
			return fmt.Errorf("history: create index: %w", err)
		}
	}
	return nil
}

// createIndex tries one way after another, as the database is not known.
func (s *SQL) createIndex(ctx context.Context, columns string) error {
	var errs []error
	for _, text := range createIndex {
		if strings.Contains(text, "{schema}") && !strings.Contains(s.table, ".") {
			continue
		}
		err := s.create(ctx, s.ddl(text, columns))
		if err == nil || strings.Contains(err.Error(), duplicateIndex) {
			return nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// create executes ddl. PostgreSQL refuses it to some of those who create one thing at once, and only for the moment.
func (s *SQL) create(ctx context.Context, ddl string) (err error) {
	for range migrations {
		if _, err = s.db.ExecContext(ctx, ddl); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// ddl fills a statement in; columns are those of an index.
func (s *SQL) ddl(text, columns string) string {
	schema, name, ok := strings.Cut(s.table, ".")
	if !ok {
		schema, name = "", s.table
	}
	return strings.NewReplacer("{table}", s.table, "{schema}", schema, "{name}", name, "{columns}", columns,
		"{index}", indexName(name, columns)).Replace(text)
}

// indexName is the name of an index of a table. Databases would cut a long one, and then take two for one.
func indexName(table, columns string) string {
	suffix := "_" + strings.ReplaceAll(strings.TrimSuffix(columns, ", id"), ", ", "_")
	if len(table)+len(suffix) > maxIdentifier {
		suffix = fmt.Sprintf("_%08x%s", crc32.ChecksumIEEE([]byte(table)), suffix)
		table = table[:maxIdentifier-len(suffix)]
	}
	return table + suffix
}
