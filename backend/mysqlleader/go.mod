module github.com/goleader/leader/backend/mysqlleader

go 1.26.0

require (
	github.com/go-sql-driver/mysql v1.10.1
	github.com/goleader/leader v0.0.0
)

require filippo.io/edwards25519 v1.2.0 // indirect

replace github.com/goleader/leader => ../..
