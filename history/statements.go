package history

// The statements of SQL, with {table} for the table's name. What begins with /*! is a comment except for MySQL and
// MariaDB, whose defaults may lack characters, and take names for equal that differ.
const (
	createTable = `CREATE TABLE IF NOT EXISTS {table} (
	id         VARCHAR(64)   NOT NULL,
	name       VARCHAR(255)  NOT NULL,
	node       VARCHAR(255)  NOT NULL,
	lease_key  VARCHAR(1600) NOT NULL,
	slot       INTEGER       NOT NULL,
	fence      BIGINT        NOT NULL,
	status     VARCHAR(20)   NOT NULL,
	started    BIGINT        NOT NULL,
	acquired   BIGINT        NOT NULL,
	finished   BIGINT        NOT NULL,
	waited     BIGINT        NOT NULL,
	held       BIGINT        NOT NULL,
	attempts   INTEGER       NOT NULL,
	unguarded  SMALLINT      NOT NULL,
	reason     VARCHAR(255)  NOT NULL,
	holder     VARCHAR(255)  NOT NULL,
	error      VARCHAR(512)  NOT NULL,
	error_type VARCHAR(255)  NOT NULL,
	lost       VARCHAR(512)  NOT NULL,
	metadata   TEXT          NOT NULL,
	written    BIGINT        NOT NULL,
	PRIMARY KEY (started, id)
) /*! CHARACTER SET utf8mb4 COLLATE utf8mb4_bin */`

	updateRow = `UPDATE {table} SET node = ?, lease_key = ?, slot = ?, fence = ?, status = ?, acquired = ?, finished = ?,
	waited = ?, held = ?, attempts = ?, unguarded = ?, reason = ?, holder = ?, error = ?, error_type = ?, lost = ?,
	metadata = ?, written = ? WHERE started = ? AND id = ?`

	insertRow = `INSERT INTO {table} (node, lease_key, slot, fence, status, acquired, finished,
	waited, held, attempts, unguarded, reason, holder, error, error_type, lost,
	metadata, written, started, id, name) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	columns = `SELECT node, lease_key, slot, fence, status, acquired, finished, waited, held, attempts, unguarded,
	reason, holder, error, error_type, lost, metadata, started, id, name FROM {table}`

	selectAll    = columns + ` ORDER BY written DESC, id DESC LIMIT ?`
	selectName   = columns + ` WHERE name = ? ORDER BY written DESC, id DESC LIMIT ?`
	selectStatus = columns + ` WHERE status = ? ORDER BY written DESC, id DESC LIMIT ?`

	// A chunk ends at the instant of its last row, so that a long backlog is not deleted in one transaction.
	endOfChunk = `SELECT written FROM {table} WHERE written < ? ORDER BY written LIMIT 1 OFFSET ?`
	deleteTo   = `DELETE FROM {table} WHERE written <= ?`
	deleteOld  = `DELETE FROM {table} WHERE written < ?`

	crowdedNames = `SELECT name FROM {table} GROUP BY name HAVING COUNT(*) > ?`
	lastKept     = `SELECT written, id FROM {table} WHERE name = ? ORDER BY written DESC, id DESC LIMIT 1 OFFSET ?`
	deleteBefore = `DELETE FROM {table} WHERE name = ? AND (written < ? OR (written = ? AND id < ?))`
)

// createIndex are the ways to create {index} on {table}, which is {name} in {schema}; each database understands one of
// them. Rows are read in the order in which they were written.
var createIndex = []string{
	"CREATE INDEX IF NOT EXISTS {index} ON {table} ({columns})",         // PostgreSQL, MariaDB; SQLite without a schema
	"CREATE INDEX IF NOT EXISTS {schema}.{index} ON {name} ({columns})", // SQLite
	"CREATE INDEX {index} ON {table} ({columns})",                       // MySQL
}

// indexes are the columns of the indexes.
var indexes = []string{"written, id", "name, written, id", "status, written, id"}
