package sqlleader

import "strings"

// postgresSchema says what is in a row. until is µs since 1970 by the server's clock, 0 when the key was freed. token is ""
// when nobody holds the key; claim is the last token of a slot together with its group, late the last 64 that were
// abandoned. Rows are updated in place all the time, so pages keep room for that.
const postgresSchema = `CREATE TABLE IF NOT EXISTS {table} (
  name     text COLLATE "C" PRIMARY KEY,
  format   bigint NOT NULL,
  token    text COLLATE "C" NOT NULL,
  spent    text COLLATE "C" NOT NULL,
  claim    text COLLATE "C" UNIQUE,
  late     text COLLATE "C" NOT NULL DEFAULT '',
  owner    text NOT NULL,
  fence    bigint NOT NULL,
  since    bigint NOT NULL,
  until    bigint NOT NULL,
  renewals bigint NOT NULL,
  metadata text NOT NULL
) WITH (fillfactor = 50)`

// postgresClock is the server's clock in µs. Unlike now() it moves on while a statement waits for a row.
const postgresClock = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

// postgresQuick lets the statement that begins with it return before its commit is on disk: who ends a lease needs no
// such promise, because a row that comes back after a crash of the server ends by its time.
const postgresQuick = "WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS mode)"

// Told that the lease in a CTE ended, waiters look at the key. They get the table's OID, because tables of other schemas
// share the channel, the fence and the name, which come after a plus sign for an acquisition. That is told only if somebody
// watches, and holds the other lock of [Presence]: a notification makes commits wait for each other.
const (
	postgresTellEnd = `CROSS JOIN LATERAL
  pg_notify('{channel}', concat_ws(' ', '{table}'::regclass::oid, fence, name)) AS told`
	postgresTell = `LEFT JOIN LATERAL (
  SELECT pg_notify('{channel}', concat_ws(' ', '+', '{table}'::regclass::oid, fence, name))
  WHERE NOT pg_try_advisory_xact_lock_shared({presence})) AS told ON true`
)

// PostgreSQL returns the dialect of PostgreSQL 12 and later. It knows the errors of drivers that have a method SQLState()
// string, as those of pgx and lib/pq do. Blocking is true, for lib/pq; pgx keeps to its contexts.
//
// No statement is prepared: pgx does so itself, in the way that its QueryExecMode says, and lib/pq needs
// binary_parameters=yes in the DSN, or two round trips.
func PostgreSQL() Dialect {
	return Dialect{
		Name:     "postgres",
		Blocking: true,
		Schema:   []string{postgresSchema, postgresRecordsSchema},
		Read: postgres(`SELECT name, format, token, spent, owner, fence, since, until - NOW, false, 0, 0, renewals, metadata
FROM {table} WHERE name >= $1 AND name < $2`, From, To),
		Take: postgres(postgresTake, Key, Token, Owner, TTL, Metadata),
		Acquire: returning(postgres(`WITH taken AS (
INSERT INTO {table} AS l (name, format, token, spent, claim, owner, fence, since, until, renewals, metadata)
SELECT $1, 1, $2, '', $3::text, $4, n, n, n + $5::bigint, 0, $6 FROM (SELECT NOW AS n) AS clock
ON CONFLICT (name) DO UPDATE SET token = excluded.token, claim = excluded.claim, owner = excluded.owner,
  fence = greatest(l.fence + 1, excluded.fence), since = excluded.since, until = NOW + $5::bigint, renewals = 0,
  metadata = excluded.metadata
WHERE l.format = 1 AND l.spent <> $2 AND l.fence = $7::bigint AND l.renewals = $8::bigint AND l.token = $9
RETURNING name, fence)
SELECT fence FROM taken `+postgresTell,
			Key, Token, Claim, Owner, TTL, Metadata, SeenFence, SeenRenewals, SeenToken)),
		Renew: holding(postgres(`UPDATE {table} SET until = greatest(until, NOW + $4::bigint), renewals = renewals + 1
WHERE name = $1 AND format = 1 AND token = $2 AND fence = $3::bigint AND until > NOW`,
			Key, Token, Fence, TTL)),
		// A minimum lease has to survive a crash of the server, so what keeps is as durable as what acquires.
		Release: holding(returning(postgres(`WITH quick AS MATERIALIZED (
  SELECT CASE WHEN $4::bigint = 0 THEN set_config('synchronous_commit', 'off', true) END AS mode),
freed AS (UPDATE {table} SET token = '', spent = $2, renewals = renewals + 1,
  until = CASE WHEN $4::bigint > 0 AND until > NOW THEN NOW + $4::bigint ELSE 0 END
FROM quick WHERE (mode IS NULL OR mode = 'off') AND name = $1 AND format = 1 AND fence = $3::bigint
  AND (token = $2 OR token = '' AND spent = $2 AND until > NOW)
RETURNING name, fence)
SELECT fence FROM freed `+postgresTellEnd,
			Key, Token, Fence, TTL))),
		Abandon: returning(postgres(postgresQuick+`,
freed AS (
INSERT INTO {table} AS l (name, format, token, spent, late, owner, fence, since, until, renewals, metadata)
SELECT $1, 1, '', $2, $2, '', NOW, NOW, 0, 0, '' FROM quick WHERE mode = 'off'
ON CONFLICT (name) DO UPDATE SET token = '', spent = excluded.spent, late = left(excluded.spent || l.late, 1664),
  until = 0, renewals = l.renewals + 1
WHERE l.format = 1 AND l.fence > 0 AND l.spent <> $2 AND (l.token = $2 OR l.until <= NOW)
RETURNING name, fence)
SELECT fence FROM freed `+postgresTellEnd,
			Key, Token)),
		Break: returning(postgres(`WITH freed AS (
UPDATE {table} SET spent = CASE WHEN token = '' THEN spent ELSE token END, token = '', until = 0, renewals = renewals + 1
WHERE name = $1 AND format = 1 AND fence = $2::bigint AND until > NOW
RETURNING name, fence)
SELECT fence FROM freed `+postgresTellEnd,
			Key, Fence)),
		Guard: returning(postgres(`SELECT fence FROM {table}
WHERE name = $1 AND format = 1 AND token <> '' AND fence = $2::bigint AND until > NOW FOR UPDATE`,
			Key, Fence)),
		Records:  postgresRecords(),
		Kind:     postgresKind,
		NoTable:  func(err error) bool { return sqlState(err) == "42P01" },
		Hint:     postgresHint,
		Conflict: postgresConflict,
		Warnings: postgresWarnings,
	}
}

// postgresTake reads before it writes, so that a losing attempt takes no lock, writes nothing, and does not wait for a
// stranger who has locked the row. What it read is as old as the statement's snapshot; what it writes is judged by the
// row as it is then. A driver gives up a connection when a context ends, but the server may begin the statement later
// still, after the attempt was abandoned and others after it: every token in late counts as spent.
const postgresTake = `WITH seen AS MATERIALIZED (
SELECT name, format, token, CASE WHEN position($2 IN late) > 0 THEN $2 ELSE spent END AS spent, owner, fence, since,
  until - NOW AS remaining, renewals, metadata
FROM {table} WHERE name = $1),
taken AS (
INSERT INTO {table} AS l (name, format, token, spent, owner, fence, since, until, renewals, metadata)
SELECT $1, 1, $2, '', $3, n, n, n + $4::bigint, 0, $5 FROM (SELECT NOW AS n) AS clock
WHERE NOT EXISTS (
  SELECT FROM seen WHERE format <> 1 OR fence <= 0 OR spent = $2 OR token <> $2 AND remaining > 0)
ON CONFLICT (name) DO UPDATE SET token = excluded.token, owner = excluded.owner, metadata = excluded.metadata,
  fence = CASE WHEN l.token = $2 AND l.until > NOW THEN l.fence ELSE greatest(l.fence + 1, excluded.fence) END,
  since = CASE WHEN l.token = $2 AND l.until > NOW THEN l.since ELSE excluded.since END,
  until = greatest(l.until, NOW + $4::bigint), renewals = l.renewals + 1
WHERE l.format = 1 AND l.fence > 0 AND l.spent <> $2 AND position($2 IN l.late) = 0
  AND (l.token = $2 OR l.until <= NOW)
RETURNING name, format, token, spent, owner, fence, since, until - NOW AS remaining, renewals, metadata)
SELECT true, name, format, token, spent, owner, fence, since, remaining, false, 0, 0, renewals, metadata
FROM taken ` + postgresTell + `
UNION ALL
SELECT false, name, format, token, spent, owner, fence, since, remaining, false, 0, 0, renewals, metadata
FROM seen WHERE NOT EXISTS (SELECT FROM taken)`

// postgresWarnings ask for what may cost leases or make them slow.
const postgresWarnings = `SELECT 'fsync is off: a crash of the server''s machine may damage the table'
WHERE current_setting('fsync') = 'off'
UNION ALL SELECT 'synchronous_commit is off: a crash of the server forgets the last leases that it granted'
WHERE current_setting('synchronous_commit') = 'off'
UNION ALL SELECT 'the server is a replica: nothing can be acquired here' WHERE pg_is_in_recovery()
UNION ALL SELECT 'transactions are read-only by default: nothing can be acquired'
WHERE NOT pg_is_in_recovery() AND current_setting('default_transaction_read_only') = 'on'
UNION ALL SELECT 'client_encoding is ' || current_setting('client_encoding') ||
  ', not UTF8: a client with another one has other names, unless they are ASCII'
WHERE current_setting('client_encoding') NOT IN ('UTF8', 'SQL_ASCII')
UNION ALL SELECT 'column ' || attname || ' of {table} has collation ' || collname ||
  ', not "C": names that differ may count as equal'
FROM pg_attribute JOIN pg_collation c ON c.oid = attcollation
WHERE attrelid = to_regclass('{table}') AND attname IN ('name', 'token', 'spent', 'claim')
  AND collname NOT IN ('C', 'POSIX')`

// postgres is a statement in which NOW stands for the server's clock.
func postgres(text string, args ...Arg) Statement {
	return Statement{Text: strings.ReplaceAll(text, "NOW", postgresClock), Args: args}
}

func returning(s Statement) Statement {
	s.Result = Returned
	return s
}

func holding(s Statement) Statement {
	s.Holder = true
	return s
}
