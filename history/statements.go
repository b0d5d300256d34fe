package history

// The statements of SQL, with {table} for the table's name. Keys are written as constraints of the table, because not
// every database creates an index only if there is none. What begins with /*! is a comment except for MySQL and MariaDB,
// whose defaults may lack characters, and take names for equal that differ.
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
	PRIMARY KEY (started, id),
	UNIQUE (name, started, id)
) /*! CHARACTER SET utf8mb4 COLLATE utf8mb4_bin */`

	updateRow = `UPDATE {table} SET node = ?, lease_key = ?, slot = ?, fence = ?, status = ?, acquired = ?, finished = ?,
	waited = ?, held = ?, attempts = ?, unguarded = ?, reason = ?, holder = ?, error = ?, error_type = ?, lost = ?,
	metadata = ?, written = ? WHERE started = ? AND id = ?`

	insertRow = `INSERT INTO {table} (node, lease_key, slot, fence, status, acquired, finished,
	waited, held, attempts, unguarded, reason, holder, error, error_type, lost,
	metadata, written, started, id, name) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	selectAll = `SELECT node, lease_key, slot, fence, status, acquired, finished, waited, held, attempts, unguarded,
	reason, holder, error, error_type, lost, metadata, started, id, name FROM {table}
	ORDER BY started DESC, id DESC LIMIT ?`

	selectRecent = `SELECT node, lease_key, slot, fence, status, acquired, finished, waited, held, attempts, unguarded,
	reason, holder, error, error_type, lost, metadata, started, id, name FROM {table}
	WHERE name = ? ORDER BY started DESC, id DESC LIMIT ?`

	// A chunk ends at the instant of its last row, so that a long backlog is not deleted in one transaction.
	endOfChunk = `SELECT started FROM {table} WHERE started < ? ORDER BY started LIMIT 1 OFFSET ?`
	deleteTo   = `DELETE FROM {table} WHERE started <= ?`
	deleteOld  = `DELETE FROM {table} WHERE started < ?`

	crowdedNames = `SELECT name FROM {table} GROUP BY name HAVING COUNT(*) > ?`
	lastKept     = `SELECT started, id FROM {table} WHERE name = ? ORDER BY started DESC, id DESC LIMIT 1 OFFSET ?`
	deleteBefore = `DELETE FROM {table} WHERE name = ? AND (started < ? OR (started = ? AND id < ?))`
)
