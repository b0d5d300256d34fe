module github.com/goleader/leader/bench

go 1.26.0

require (
	github.com/bsm/redislock v0.9.4
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/go-sql-driver/mysql v1.10.1
	github.com/goleader/leader v0.0.0
	github.com/goleader/leader/backend/mongoleader v0.0.0
	github.com/goleader/leader/backend/mysqlleader v0.0.0
	github.com/goleader/leader/backend/pgleader v0.0.0
	github.com/goleader/leader/backend/redisleader v0.0.0
	github.com/goleader/leader/backend/sqliteleader v0.0.0
	github.com/jackc/pgx/v5 v5.12.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	go.mongodb.org/mongo-driver/v2 v2.10.0
	modernc.org/sqlite v1.62.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/ncruces/go-strftime v1.1.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/xdg-go/scram v1.4.0 // indirect
	github.com/xdg-go/stringprep v1.0.4 // indirect
	github.com/youmark/pkcs8 v0.0.0-20240726163527-a2c0da244d78 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/crypto v0.54.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	modernc.org/libc v1.80.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
)

replace (
	github.com/goleader/leader => ..
	github.com/goleader/leader/backend/mongoleader => ../backend/mongoleader
	github.com/goleader/leader/backend/mysqlleader => ../backend/mysqlleader
	github.com/goleader/leader/backend/pgleader => ../backend/pgleader
	github.com/goleader/leader/backend/redisleader => ../backend/redisleader
	github.com/goleader/leader/backend/sqliteleader => ../backend/sqliteleader
)
