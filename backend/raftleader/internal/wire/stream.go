package wire

import (
	"context"
	"io"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// Streams are the raft streams of a port, as the raft library wants them.
type Streams struct {
	port *Port
	addr net.Addr
}

var _ raft.StreamLayer = (*Streams)(nil)

// Streams returns the raft streams of a port whose node is known to others by the given address.
func (p *Port) Streams(advertise string) *Streams { return &Streams{p, named(advertise)} }

// Accept implements [net.Listener].
func (s *Streams) Accept() (net.Conn, error) {
	select {
	case conn := <-s.port.rafts:
		return conn, nil
	case <-s.port.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]. The port is closed on its own.
func (s *Streams) Close() error { return nil }

// Addr implements [net.Listener] with the address by which others know the node.
func (s *Streams) Addr() net.Addr { return s.addr }

// Dial implements [raft.StreamLayer] for an address of [Transport].
func (s *Streams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, at, _ := strings.Cut(string(address), "@")
	ctx, cancel := context.WithTimeout(s.port.ctx, timeout)
	defer cancel()
	return s.port.dial(ctx, Raft, target{id, at, false})
}

// named is an address that is known by name.
type named string

func (named) Network() string  { return "tcp" }
func (n named) String() string { return string(n) }

// Transport is the raft library's own, over streams that are addressed to a server and not only to an address. An
// address on its own would do for one who comes after: a server that lost its disk would then vote, and acknowledge
// entries, in the place of the one that it was before.
type Transport struct{ *raft.NetworkTransport }

var (
	_ raft.Transport   = Transport{}
	_ raft.WithPreVote = Transport{}
	_ raft.WithClose   = Transport{}
)

// SetHeartbeatHandler implements [raft.Transport] by doing nothing, so that heartbeats take their turn with everything
// else. The library's handler changes the term beside its main loop: a node could come back to a term in which it has
// voted against the leader, acknowledge entries there, and with them lose what was committed.
func (Transport) SetHeartbeatHandler(func(raft.RPC)) {}

// Mark is what the library takes for an address. The id comes first; it has no "@" in it.
func Mark(id raft.ServerID, at raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(id) + "@" + at
}

// AppendEntriesPipeline implements [raft.Transport].
func (t Transport) AppendEntriesPipeline(id raft.ServerID, at raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, Mark(id, at))
	if err != nil {
		return nil, err
	}
	return newPipeline(inner), nil
}

// AppendEntries implements [raft.Transport].
func (t Transport) AppendEntries(
	id raft.ServerID, at raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	return t.NetworkTransport.AppendEntries(id, Mark(id, at), req, resp)
}

// RequestVote implements [raft.Transport].
func (t Transport) RequestVote(
	id raft.ServerID, at raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse,
) error {
	return t.NetworkTransport.RequestVote(id, Mark(id, at), req, resp)
}

// RequestPreVote implements [raft.WithPreVote].
func (t Transport) RequestPreVote(
	id raft.ServerID, at raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse,
) error {
	return t.NetworkTransport.RequestPreVote(id, Mark(id, at), req, resp)
}

// InstallSnapshot implements [raft.Transport].
func (t Transport) InstallSnapshot(
	id raft.ServerID, at raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse,
	data io.Reader,
) error {
	return t.NetworkTransport.InstallSnapshot(id, Mark(id, at), req, resp, data)
}

// TimeoutNow implements [raft.Transport].
func (t Transport) TimeoutNow(
	id raft.ServerID, at raft.ServerAddress, req *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse,
) error {
	return t.NetworkTransport.TimeoutNow(id, Mark(id, at), req, resp)
}

// EncodePeer implements [raft.Transport]. The library remembers by it whom it voted for, so it names the server too.
func (t Transport) EncodePeer(id raft.ServerID, at raft.ServerAddress) []byte {
	return []byte(Mark(id, at))
}

// DecodePeer implements [raft.Transport].
func (t Transport) DecodePeer(peer []byte) raft.ServerAddress {
	_, at, _ := strings.Cut(string(peer), "@")
	return raft.ServerAddress(at)
}
