package wire_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/goleader/leader/backend/raftleader/internal/machine"
	"github.com/goleader/leader/backend/raftleader/internal/wire"
)

const patience = 10 * time.Second

// node is a handler that answers in a way that tests see.
type node struct {
	id     string
	served atomic.Int64
	serve  func(ctx context.Context, r wire.Request) wire.Answer
}

func (n *node) Hello() wire.Hello {
	return wire.Hello{ID: n.id, Peers: []string{"a", "b"}, Member: true}
}
func (n *node) Term() uint64 { return 7 }

func (n *node) Serve(ctx context.Context, r wire.Request) wire.Answer {
	n.served.Add(1)
	if n.serve != nil {
		return n.serve(ctx, r)
	}
	return wire.Answer{Reply: machine.Reply{Code: machine.OK, Fence: r.Command.Fence + 1}}
}

func (n *node) Admit(_ context.Context, a wire.Applicant) wire.Admission {
	return wire.Admission{Fault: wire.Refused, Text: "not " + a.ID}
}

func (n *node) Dismiss(_ context.Context, address string) wire.Admission {
	return wire.Admission{Text: address}
}

// open opens the port of a node on a free address.
func open(t *testing.T, n *node) (*wire.Port, string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &wire.Port{ID: n.id, Listener: l, Handler: n}
	p.Open(t.Context())
	p.Ready()
	t.Cleanup(p.Close)
	return p, l.Addr().String()
}

func TestPort_PassesCallsOn(t *testing.T) {
	ours, _ := open(t, &node{id: "ours"})
	_, address := open(t, &node{id: "theirs"})
	h, err := ours.AskHello(t.Context(), address)
	if err != nil || h.ID != "theirs" || len(h.Peers) != 2 || !h.Member {
		t.Errorf("Hello: %+v, %v", h, err)
	}
	if term, err := ours.AskTerm(t.Context(), "theirs", address); err != nil || term != 7 {
		t.Errorf("Term: %d, %v", term, err)
	}
	r := wire.Request{Topic: wire.Propose, Command: machine.Command{Fence: 41}}
	if a, err := ours.Ask(t.Context(), "theirs", address, r, nil); err != nil || a.Reply.Fence != 42 {
		t.Errorf("Serve: %+v, %v", a, err)
	}
	if a, err := ours.AskAdmission(t.Context(), "theirs", address, wire.Applicant{ID: "ours"}); err != nil ||
		a.Fault != wire.Refused || a.Text != "not ours" {
		t.Errorf("Admit: %+v, %v", a, err)
	}
	if a, err := ours.AskDismissal(t.Context(), "theirs", address, "x"); err != nil || a.Text != "x" {
		t.Errorf("Dismiss: %+v, %v", a, err)
	}
}

// A server that forgot what it was must not answer for what it was, and a call must not get to another cluster.
func TestPort_RefusesCallsForAnotherServer(t *testing.T) {
	ours, _ := open(t, &node{id: "ours"})
	theirs := &node{id: "new"}
	_, address := open(t, theirs)
	if _, err := ours.AskTerm(t.Context(), "old", address); !errors.Is(err, wire.ErrOtherServer) {
		t.Errorf("Term: %v, want ErrOtherServer", err)
	}
	r := wire.Request{Topic: wire.Propose}
	_, err := ours.Ask(t.Context(), "old", address, r, nil)
	if !errors.Is(err, wire.ErrOtherServer) || !errors.Is(err, wire.ErrUnsent) {
		t.Errorf("Serve: %v, want ErrOtherServer", err)
	}
	if theirs.served.Load() != 0 {
		t.Error("it was served")
	}
}

func TestPort_RefusesRaftStreamsForAnotherServer(t *testing.T) {
	ours, _ := open(t, &node{id: "ours"})
	_, address := open(t, &node{id: "new"})
	streams := ours.Streams("ours")
	if _, err := streams.Dial(wire.Mark("old", raft.ServerAddress(address)), patience); !errors.Is(err, wire.ErrOtherServer) {
		t.Errorf("got %v, want ErrOtherServer", err)
	}
	conn, err := streams.Dial(wire.Mark("new", raft.ServerAddress(address)), patience)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestTransport_LetsHeartbeatsTakeTheirTurn(t *testing.T) {
	transport := func(id string) (wire.Transport, string) {
		p, address := open(t, &node{id: id})
		inner := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Logger: hclog.NewNullLogger(), Stream: p.Streams(address), MaxPool: 1, Timeout: patience,
		})
		t.Cleanup(func() { _ = inner.Close() })
		return wire.Transport{NetworkTransport: inner}, address
	}
	ours, _ := transport("ours")
	theirs, address := transport("theirs")
	raft.Transport(theirs).SetHeartbeatHandler(func(r raft.RPC) {
		t.Error("a heartbeat overtakes the queue")
		r.Respond(&raft.AppendEntriesResponse{}, nil)
	})
	go func() {
		select {
		case r := <-theirs.Consumer():
			r.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
		case <-t.Context().Done():
		}
	}()
	heartbeat := raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{Addr: []byte("ours")}, Term: 1}
	var answer raft.AppendEntriesResponse
	err := ours.AppendEntries("theirs", raft.ServerAddress(address), &heartbeat, &answer)
	if err != nil || !answer.Success {
		t.Errorf("got %+v, %v", answer, err)
	}
}

func TestPort_RefusesWhatItDoesNotKnow(t *testing.T) {
	_, address := open(t, &node{id: "a"})
	for name, row := range map[string]struct {
		sent   []byte
		answer byte
	}{
		"a hello":         {[]byte{'H', 1, 0}, 0},
		"a call for it":   {[]byte{'C', 1, 1, 'a'}, 0},
		"another server":  {[]byte{'R', 1, 1, 'b'}, 1},
		"another version": {[]byte{'R', 2, 1, 'a'}, 2},
		"an unknown kind": {[]byte{'X', 1, 1, 'a'}, 3},
		"a call for any":  {[]byte{'C', 1, 0}, 1},
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(row.sent); err != nil {
			t.Fatal(err)
		}
		var answer [1]byte
		if _, err := io.ReadFull(conn, answer[:]); err != nil || answer[0] != row.answer {
			t.Errorf("%s: got %d, %v, want %d", name, answer[0], err, row.answer)
		}
		conn.Close()
	}
}

func TestPort_ACall_EndsWithItsContext(t *testing.T) {
	ours, _ := open(t, &node{id: "ours"})
	held := make(chan struct{})
	_, address := open(t, &node{id: "theirs", serve: func(context.Context, wire.Request) wire.Answer {
		<-held // longer than the context, at whose end both sides would be ready
		return wire.Answer{}
	}})
	t.Cleanup(func() { close(held) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := ours.Ask(ctx, "theirs", address, wire.Request{Topic: wire.Propose}, nil)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, wire.ErrUnsent) {
		t.Errorf("got %v, want DeadlineExceeded of a call that was made", err)
	}
	gone := make(chan struct{})
	close(gone)
	if _, err := ours.Ask(t.Context(), "theirs", address, wire.Request{Topic: wire.Propose}, gone); err == nil {
		t.Error("a call to a leader that is gone succeeded")
	}
}

func TestPort_ACall_ToNobodyIsUnsent(t *testing.T) {
	ours, _ := open(t, &node{id: "ours"})
	theirs, address := open(t, &node{id: "theirs"})
	if _, err := ours.AskTerm(t.Context(), "theirs", address); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for end := time.Now().Add(patience); ; {
		_, err := ours.AskTerm(ctx, "theirs", address)
		if errors.Is(err, wire.ErrUnsent) {
			break
		}
		if err == nil || time.Now().After(end) {
			t.Fatalf("got %v, want ErrUnsent", err)
		}
	}
	if _, err := ours.AskHello(ctx, address); !errors.Is(err, wire.ErrUnsent) {
		t.Errorf("got %v, want ErrUnsent", err)
	}
}

// Requests of one line are served beside each other, so that an attempt that was given up could come after its own
// clean-up.
func TestPort_AnAbandonment_WaitsForTheAttempt(t *testing.T) {
	ours, _ := open(t, &node{id: "ours"})
	release := make(chan struct{})
	var order []machine.Kind // written in turn, if the test passes
	theirs := &node{id: "theirs", serve: func(_ context.Context, r wire.Request) wire.Answer {
		if r.Command.Kind == machine.Acquire {
			<-release
		}
		order = append(order, r.Command.Kind)
		return wire.Answer{}
	}}
	_, address := open(t, theirs)
	ask := func(ctx context.Context, kind machine.Kind, token string) error {
		_, err := ours.Ask(ctx, "theirs", address, wire.Request{
			Topic: wire.Propose, Command: machine.Command{Kind: kind, Token: token},
		}, nil)
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	for ctx.Err() == nil { // until it was sent and given up
		if err := ask(ctx, machine.Acquire, "token"); err == nil {
			t.Fatal("the attempt was answered")
		}
	}
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := ask(brief, machine.Abandon, "token"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("an abandonment before the attempt is over: %v", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { close(release) })
	if err := ask(t.Context(), machine.Abandon, "token"); err != nil {
		t.Fatal(err)
	}
	if n := len(order); n < 2 || order[n-1] != machine.Abandon || order[0] != machine.Acquire {
		t.Errorf("served %v", order)
	}
}
