package sqlleader

import (
	"strings"

	"github.com/goleader/leader/backend"
)

// mysqlSchema says what is in a row. until is µs since 1970 by the server's clock, 0 when the key was freed. token is ""
// when nobody holds the key; claim is the last token of a slot together with its group, late the last 64 that were
// abandoned. All text is bytes, so that neither case nor accents nor trailing spaces are ignored.
const mysqlSchema = `CREATE TABLE IF NOT EXISTS {table} (
  name     VARBINARY(1600) NOT NULL PRIMARY KEY,
  format   BIGINT NOT NULL,
  token    VARBINARY(64) NOT NULL,
  spent    VARBINARY(64) NOT NULL,
  late     VARBINARY(1664) NOT NULL DEFAULT '',
  claim    VARBINARY(1700) UNIQUE,
  owner    VARBINARY(1600) NOT NULL,
  fence    BIGINT NOT NULL,
  since    BIGINT NOT NULL,
  until    BIGINT NOT NULL,
  renewals BIGINT NOT NULL,
  metadata MEDIUMBLOB NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`

const (
	// mysqlClock is the server's clock at the start of the statement, in µs, whatever the session's time zone is. A
	// statement that waits for a row judges by the earlier instant, so it promises no more than it was asked for.
	mysqlClock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

	// mysqlBound ends a statement that waits for a row which a stranger has locked. The driver returns with its context,
	// but the statement goes on at the server. It is a comment except for MariaDB; MySQL needs the setting in the DSN.
	mysqlBound = "/*M! SET STATEMENT innodb_lock_wait_timeout = 1 FOR */ "
)

// MySQL returns the dialect of MariaDB 10.5 and MySQL 8.0 and later. It knows the errors of github.com/go-sql-driver/mysql
// by their texts. Blocking is true; package mysqlleader, which knows that driver, sets it to false.
func MySQL() Dialect { return MySQLBy(mysqlNumber) }

// MySQLBy is [MySQL] for a driver whose errors number knows better: it returns the server's number of an error, 0 if it
// has none.
func MySQLBy(number func(error) int) Dialect {
	return Dialect{
		Name:      "mysql",
		Blocking:  true,
		LookFirst: true,
		Prepare:   true,
		Schema:    []string{mysqlSchema, mysqlRecordsSchema},
		Read: mysql(`SELECT name, format, token, spent, owner, fence, since, until - NOW, FALSE, 0, 0,
  renewals, metadata FROM {table} WHERE name >= ? AND name < ?`, From, To),
		Take:   mysql(mysqlBound+mysqlTake, Key, Token, Owner, TTL, Metadata, Token),
		TakeIf: `SELECT VERSION() REGEXP '^(10[.]([5-9]|1[0-9])|1[1-9]|[2-9][0-9])[.].*MariaDB'`,
		Create: insertID(mysql(mysqlBound+`INSERT INTO {table}
  (name, format, token, spent, claim, owner, fence, since, until, renewals, metadata)
VALUES (?, `+mysqlCommits+`, ?, '', ?, ?, LAST_INSERT_ID(NOW), NOW, NOW + ?, 0, ?)
ON DUPLICATE KEY UPDATE fence = fence + CAST(LAST_INSERT_ID(0) AS SIGNED)`,
			Key, Token, Claim, Owner, TTL, Metadata)),
		Acquire: insertID(mysql(mysqlBound+`UPDATE {table}
SET fence = LAST_INSERT_ID(GREATEST(fence + 1, NOW)), token = ?, claim = ?, owner = ?, since = NOW, until = NOW + ?,
  renewals = 0, metadata = ?
WHERE @@autocommit AND name = ? AND format = 1 AND spent <> ? AND fence = ? AND renewals = ? AND token = ?`,
			Token, Claim, Owner, TTL, Metadata, Key, Token, SeenFence, SeenRenewals, SeenToken)),
		Renew: mysql(mysqlBound+`UPDATE {table} SET until = GREATEST(until, NOW + ?), renewals = renewals + 1
WHERE name = ? AND format = 1 AND token = ? AND fence = ? AND until > NOW`,
			TTL, Key, Token, Fence),
		Release: mysql(mysqlBound+`UPDATE {table} SET until = IF(? > 0 AND until > NOW, NOW + ?, 0), token = '', spent = ?,
  renewals = renewals + 1
WHERE name = ? AND format = 1 AND fence = ? AND (token = ? OR token = '' AND spent = ? AND until > NOW)`,
			TTL, TTL, Token, Key, Fence, Token, Token),
		Abandon: insertID(mysql(mysqlBound+strings.ReplaceAll(`INSERT INTO {table}
  (name, format, token, spent, late, owner, fence, since, until, renewals, metadata)
VALUES (?, 1, '', ?, ?, '', LAST_INSERT_ID(NOW), NOW, 0, 0, '')
ON DUPLICATE KEY UPDATE fence = IF(FREE, LAST_INSERT_ID(fence), fence + CAST(LAST_INSERT_ID(0) AS SIGNED)),
  renewals = IF(FREE, renewals + 1, renewals), until = IF(FREE, 0, until), token = IF(FREE, '', token),
  late = IF(FREE, LEFT(CONCAT(VALUES(late), late), 1664), late), spent = IF(FREE, VALUES(spent), spent)`,
			"FREE", "format = 1 AND fence > 0 AND spent <> VALUES(spent) "+
				"AND (token = VALUES(spent) OR until <= VALUES(since))"),
			Key, Token, Token)),
		Break: mysql(mysqlBound+`UPDATE {table} SET spent = IF(token = '', spent, token), token = '', until = 0,
  renewals = renewals + 1 WHERE name = ? AND format = 1 AND fence = ? AND until > NOW`,
			Key, Fence),
		Guard: returning(mysql(`SELECT fence FROM {table}
WHERE name = ? AND format = 1 AND token <> '' AND fence = ? AND until > NOW FOR UPDATE`,
			Key, Fence)),
		Records:  mysqlRecords(),
		Kind:     func(err error) backend.Kind { return mysqlKinds[number(err)] },
		NoTable:  func(err error) bool { return number(err) == mysqlNoTable },
		Hint:     func(err error) string { return mysqlHint(number(err)) },
		Conflict: func(err error) bool { return mysqlConflict(number(err)) },
		Warnings: mysqlWarnings,
	}
}

// mysqlTake inserts a row, or changes the one that is there if it is FREE or MINE. MySQL assigns from left to right, and
// each assignment sees the earlier ones; in MariaDB's mode SIMULTANEOUS_ASSIGNMENT none does. The conditions and the order
// of the columns are such that both stay as they were in either case.
//
// The driver gives up a connection whose context ends, but the server goes on with the statement, or only begins, and may
// do so after the attempt was abandoned and others after it. Hence late: the other statements name the row's state.
var mysqlTake = strings.NewReplacer(
	"FREE", mysqlFree, "MINE", "(token = VALUES(token) AND format = 1 AND fence > 0 OR "+mysqlFree+")",
).Replace(`INSERT INTO {table} (name, format, token, spent, owner, fence, since, until, renewals, metadata)
VALUES (?, ` + mysqlCommits + `, ?, '', ?, NOW, NOW, NOW + ?, 0, ?)
ON DUPLICATE KEY UPDATE fence = IF(FREE, GREATEST(fence + 1, VALUES(since)), fence),
  since = IF(FREE, VALUES(since), since), token = IF(FREE, VALUES(token), token),
  owner = IF(MINE, VALUES(owner), owner), metadata = IF(MINE, VALUES(metadata), metadata),
  renewals = IF(MINE, renewals + 1, renewals), until = IF(MINE, GREATEST(until, VALUES(until)), until)
RETURNING token = ? AND format = 1 AND fence > 0, name, format, token, spent, owner, fence, since, until - NOW, FALSE,
  0, 0, renewals, metadata`)

// mysqlCommits is the format of a row, and an error on a connection whose statements are not committed one by one: what
// it acquired nobody else would see.
const mysqlCommits = "IF(@@autocommit, 1, NULL)"

// mysqlFree is the condition that a row can be taken.
const mysqlFree = "(format = 1 AND fence > 0 AND spent <> VALUES(token) AND LOCATE(VALUES(token), late) = 0 " +
	"AND until <= VALUES(since))"

// mysqlWarnings ask for what may cost leases or make them slow.
const mysqlWarnings = `SELECT 'autocommit is off: no lease is ever committed' FROM DUAL WHERE @@autocommit = 0
UNION ALL SELECT CONCAT('innodb_flush_log_at_trx_commit is ', @@innodb_flush_log_at_trx_commit,
  ', not 1: a crash of the server forgets the last leases that it granted')
FROM DUAL WHERE @@innodb_flush_log_at_trx_commit <> 1
UNION ALL SELECT CONCAT('sync_binlog is ', @@sync_binlog,
  ', not 1: a power cut forgets the last leases that the server granted')
FROM DUAL WHERE @@log_bin <> 0 AND @@sync_binlog <> 1
UNION ALL SELECT 'the server is read-only: nothing can be acquired here' FROM DUAL WHERE @@global.read_only <> 0
UNION ALL SELECT CONCAT('innodb_lock_wait_timeout is ', @@innodb_lock_wait_timeout,
  ' s: a statement that waits for a locked row occupies a connection of the server for so long; set it in the DSN')
FROM DUAL WHERE @@innodb_lock_wait_timeout > 10 AND VERSION() NOT LIKE '%MariaDB%'`

// mysql is a statement in which NOW stands for the server's clock.
func mysql(text string, args ...Arg) Statement {
	return Statement{Text: strings.ReplaceAll(text, "NOW", mysqlClock), Args: args}
}

func insertID(s Statement) Statement {
	s.Result = InsertID
	return s
}
