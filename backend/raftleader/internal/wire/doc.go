// Package wire is how the nodes of a raftleader cluster talk: one port with three kinds of streams, and calls from node
// to node.
//
// Every stream begins with a [greeting] that names the server it is for. The id of a server is random, and as durable as
// the server's log. So a node never takes part in what was meant for one that had its address before, or for a node of
// another cluster at an address that was mixed up.
package wire
