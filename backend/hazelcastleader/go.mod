module github.com/goleader/leader/backend/hazelcastleader

go 1.26.0

require (
	github.com/goleader/leader v0.0.0
	github.com/hazelcast/hazelcast-go-client v1.4.3
)

require (
	github.com/StackExchange/wmi v0.0.0-20190523213315-cbe66965904d // indirect
	github.com/go-ole/go-ole v1.2.4 // indirect
	github.com/shirou/gopsutil/v3 v3.21.5 // indirect
	github.com/tklauser/go-sysconf v0.3.4 // indirect
	github.com/tklauser/numcpus v0.2.1 // indirect
	golang.org/x/sys v0.1.0 // indirect
)

replace github.com/goleader/leader => ../..
