package sqlleader

// sqliteRecordsSchema says what is in a record. until is µs since 1970, 0 for one without end. The second index, unique
// because the first is, serves the search for expired ones.
const sqliteRecordsSchema = `CREATE TABLE IF NOT EXISTS {table}_records (
  name    TEXT    NOT NULL COLLATE BINARY PRIMARY KEY,
  format  INTEGER NOT NULL,
  version TEXT    NOT NULL,
  value   BLOB    NOT NULL,
  until   INTEGER NOT NULL,
  UNIQUE (until, name)
) STRICT, WITHOUT ROWID`

func sqliteRecords() RecordStatements {
	return RecordStatements{
		// A record of another format shows always: what its until means is not known.
		Read: Statement{
			Text: `SELECT name, format, version, value, CASE WHEN until > 0 THEN until - now ELSE 0 END, now
FROM (SELECT ?3 AS now) LEFT JOIN {table}_records
  ON name >= ?1 AND name < ?2 AND (until = 0 OR until > now OR format <> 1)`,
			Args: []Arg{From, To, Wall},
		},
		Create: Statement{
			Text: `INSERT INTO {table}_records (name, format, version, value, until)
VALUES (?1, 1, ?2, ?3, CASE WHEN ?4 > 0 THEN ?5 + ?4 ELSE 0 END)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, value = excluded.value, until = excluded.until
WHERE format = 1 AND until > 0 AND until <= ?5`,
			Args: []Arg{Key, Version, Value, TTL, Wall},
		},
		Replace: Statement{
			Text: `UPDATE {table}_records SET version = ?2, value = ?3, until = CASE WHEN ?4 > 0 THEN ?5 + ?4 ELSE 0 END
WHERE name = ?1 AND format = 1 AND version = ?6 AND (until = 0 OR until > ?5)`,
			Args: []Arg{Key, Version, Value, TTL, Wall, SeenVersion},
		},
		Delete: Statement{
			Text: "DELETE FROM {table}_records WHERE name = ?1 AND format = 1 AND version = ?2",
			Args: []Arg{Key, SeenVersion},
		},
		Sweep: Statement{
			Text: `DELETE FROM {table}_records WHERE name IN (
  SELECT name FROM {table}_records WHERE until > 0 AND until <= ?1 AND format = 1 LIMIT 64)`,
			Args: []Arg{Wall},
		},
	}
}
