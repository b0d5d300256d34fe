module github.com/goleader/leader/internal/browsertest

go 1.26.0

require (
	github.com/chromedp/cdproto v0.159.3
	github.com/chromedp/chromedp v0.23.0
	github.com/goleader/leader v0.0.0
	github.com/goleader/leader/backend/redisleader v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/goleader/leader => ../..

replace github.com/goleader/leader/backend/redisleader => ../../backend/redisleader
