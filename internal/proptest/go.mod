module github.com/goleader/leader/internal/proptest

go 1.26.0

require (
	github.com/goleader/leader v0.0.0
	pgregory.net/rapid v1.3.0
)

replace github.com/goleader/leader => ../..
