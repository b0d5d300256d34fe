package sqlleader

import "strings"

// mysqlRecordsSchema says what is in a record. until is µs since 1970, 0 for one without end. The second index serves the
// search for expired ones.
const mysqlRecordsSchema = `CREATE TABLE IF NOT EXISTS {table}_records (
  name    VARBINARY(1600) NOT NULL PRIMARY KEY,
  format  BIGINT NOT NULL,
  version VARBINARY(64) NOT NULL,
  value   MEDIUMBLOB NOT NULL,
  until   BIGINT NOT NULL,
  INDEX (until)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`

func mysqlRecords() RecordStatements {
	return RecordStatements{
		// A record of another format shows always: what its until means is not known.
		Read: mysql(`SELECT name, format, version, value, IF(until > 0, until - clock.instant, 0), clock.instant
FROM (SELECT NOW AS instant) AS clock LEFT JOIN {table}_records
  ON name >= ? AND name < ? AND (until = 0 OR until > clock.instant OR format <> 1)`,
			From, To),
		Create: insertID(mysql(mysqlBound+strings.ReplaceAll(`INSERT INTO {table}_records
  (name, format, version, value, until)
VALUES (?, LAST_INSERT_ID(1), ?, ?, IF(? > 0, NOW + ?, 0))
ON DUPLICATE KEY UPDATE format = IF(GONE, LAST_INSERT_ID(1), format + CAST(LAST_INSERT_ID(0) AS SIGNED)),
  version = IF(GONE, VALUES(version), version), value = IF(GONE, VALUES(value), value),
  until = IF(GONE, VALUES(until), until)`,
			"GONE", "format = 1 AND until > 0 AND until <= NOW"),
			Key, Version, Value, TTL, TTL)),
		Replace: mysql(mysqlBound+`UPDATE {table}_records SET until = IF(? > 0, NOW + ?, 0), version = ?, value = ?
WHERE name = ? AND format = 1 AND version = ? AND (until = 0 OR until > NOW)`,
			TTL, TTL, Version, Value, Key, SeenVersion),
		Delete: mysql(mysqlBound+"DELETE FROM {table}_records WHERE name = ? AND format = 1 AND version = ?",
			Key, SeenVersion),
		Sweep: mysql(mysqlBound + "DELETE FROM {table}_records WHERE until > 0 AND until <= NOW AND format = 1 LIMIT 64"),
	}
}
