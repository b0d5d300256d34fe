module github.com/goleader/leader/backend/zkleader

go 1.26.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/goleader/leader v0.0.0
)

replace github.com/goleader/leader => ../..
