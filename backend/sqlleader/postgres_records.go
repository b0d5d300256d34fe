package sqlleader

// postgresRecordsSchema says what is in a record. until is µs since 1970, 0 for one without end. The second index, unique
// because the first is, serves the search for expired ones.
const postgresRecordsSchema = `CREATE TABLE IF NOT EXISTS {table}_records (
  name    text COLLATE "C" PRIMARY KEY,
  format  bigint NOT NULL,
  version text COLLATE "C" NOT NULL,
  value   bytea NOT NULL,
  until   bigint NOT NULL,
  UNIQUE (until, name)
)`

func postgresRecords() RecordStatements {
	return RecordStatements{
		// A record of another format shows always: what its until means is not known.
		Read: postgres(`SELECT name, format, version, value, CASE WHEN until > 0 THEN until - clock.at ELSE 0 END, clock.at
FROM (SELECT NOW AS at) AS clock LEFT JOIN {table}_records
  ON name >= $1 AND name < $2 AND (until = 0 OR until > clock.at OR format <> 1)`,
			From, To),
		Create: postgres(`INSERT INTO {table}_records AS r (name, format, version, value, until)
VALUES ($1, 1, $2, $3, CASE WHEN $4::bigint > 0 THEN NOW + $4::bigint ELSE 0 END)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, value = excluded.value, until = excluded.until
WHERE r.format = 1 AND r.until > 0 AND r.until <= NOW`,
			Key, Version, Value, TTL),
		Replace: postgres(`UPDATE {table}_records SET version = $2, value = $3,
  until = CASE WHEN $4::bigint > 0 THEN NOW + $4::bigint ELSE 0 END
WHERE name = $1 AND format = 1 AND version = $5 AND (until = 0 OR until > NOW)`,
			Key, Version, Value, TTL, SeenVersion),
		Delete: postgres("DELETE FROM {table}_records WHERE name = $1 AND format = 1 AND version = $2",
			Key, SeenVersion),
		Sweep: postgres(`DELETE FROM {table}_records WHERE name IN (
  SELECT name FROM {table}_records WHERE until > 0 AND until <= NOW AND format = 1 LIMIT 64 FOR UPDATE SKIP LOCKED)`),
	}
}
