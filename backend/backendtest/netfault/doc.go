// Package netfault puts a TCP proxy with faults in front of a server, for tests and measurements of whatever talks to it.
//
// A [Proxy] listens on a free loopback port and opens one connection to the server for each one that it accepts:
//
//	proxy, err := netfault.Listen(ctx, server.Addr())
//	…
//	defer proxy.Close()
//	client := dial(proxy.Addr())
//
// Its faults differ in what becomes of the bytes and in what the client gets to know:
//
//   - Freeze keeps connections open and bytes waiting; after Thaw all of them arrive, late.
//   - Drop keeps connections open and loses bytes for good.
//   - Cut resets connections, and new ones too.
//   - Delay makes everything slow.
//   - SwallowReply lets one request reach the server and its reply get lost.
//   - HoldRequest lets one request reach the server late, if need be after its client has gone.
//
// Mend ends all of them. A fault takes hold of what arrives at the proxy after the call; bytes that were on their way
// before may still get through.
//
// # What counts as a request
//
// The proxy knows no protocol. A request is a chunk: what one read from the client's connection returned. Clients
// write a request at once, so that it mostly is a whole one, with others that were pipelined behind it. A request above
// 64 KiB is several chunks. Under TLS the bytes tell nothing, and only a nil match is of use.
//
// # No holes
//
// TCP never delivers bytes after a gap, and a client that got the reply to its second request in place of the first
// would fail in ways that no network brings about. So a direction that lost bytes stays silent until the connection
// ends: clients find out by their own timeouts, as they do in earnest.
package netfault
