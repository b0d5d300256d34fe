package wire

import (
	"context"
	"net"
	"testing"
	"time"
)

// silentNode is a handler that nobody asks for more than a term.
type silentNode struct{ Handler }

func (silentNode) Term() uint64 { return 7 }

// A server that is gone for good is never called again, so its lines have to end on their own.
func TestPort_KeepsNoLineThatTheOtherSideHasEnded(t *testing.T) {
	open := func(id string) *Port {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p := &Port{ID: id, Listener: l, Handler: silentNode{}}
		p.Open(context.WithoutCancel(t.Context()))
		p.Ready()
		t.Cleanup(p.Close)
		return p
	}
	ours, theirs := open("ours"), open("theirs")
	if _, err := ours.AskTerm(t.Context(), "theirs", theirs.Listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	left := func() int {
		ours.mu.Lock()
		defer ours.mu.Unlock()
		return len(ours.lines) + len(ours.conns)
	}
	for end := time.Now().Add(10 * time.Second); left() > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d lines and connections are left", left())
		}
	}
}
