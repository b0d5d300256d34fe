package netfault_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
)

func containing(s string) func([]byte) bool {
	return func(request []byte) bool { return bytes.Contains(request, []byte(s)) }
}

func TestProxy_SwallowReply_LosesOnlyTheReply(t *testing.T) {
	p, s := newProxy(t)
	c, other := dial(t, p), dial(t, p)
	trap := p.SwallowReply(containing("set"))
	c.wantEcho(t, "get")
	s.wantGets(t, "get")

	c.send(t, "set")
	if err := trap.Wait(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	s.wantGets(t, "set")
	c.wantSilence(t)
	other.wantEcho(t, "set")
}

func TestProxy_SwallowReply_LeavesNoHoleInTheStream(t *testing.T) {
	p, s := newProxy(t)
	c := dial(t, p)
	trap := p.SwallowReply(nil)
	c.send(t, "1")
	if err := trap.Wait(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	c.send(t, "2")
	s.wantGets(t, "1")
	s.wantGets(t, "2")
	c.wantSilence(t)
	if n := p.Connections(); n != 1 {
		t.Errorf("Connections() = %d, want 1", n)
	}
	p.Mend()
	c.wantEnd(t)
}

func TestProxy_SwallowReply_PassesOnTheEndOfTheServer(t *testing.T) {
	p, _ := newProxy(t)
	c := dial(t, p)
	trap := p.SwallowReply(nil)
	c.send(t, "1")
	if err := trap.Wait(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	c.send(t, quit)
	c.wantEnd(t)
}

func TestProxy_HoldRequest_DeliversOnRelease(t *testing.T) {
	p, s := newProxy(t)
	c, other := dial(t, p), dial(t, p)
	hold := p.HoldRequest(containing("set"))
	c.wantEcho(t, "get")
	s.wantGets(t, "get")

	c.send(t, "set")
	if err := hold.Wait(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	c.send(t, "behind")
	s.wantGetsNothing(t)
	other.wantEcho(t, "set")
	s.wantGets(t, "set")

	if err := hold.Release(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	c.wantReply(t, "set")
	c.wantReply(t, "behind")
}

func TestProxy_HoldRequest_DeliversAfterTheClientHasGone(t *testing.T) {
	p, s := newProxy(t)
	c := dial(t, p)
	hold := p.HoldRequest(nil)
	c.send(t, "late")
	if err := hold.Wait(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	s.wantGetsNothing(t)
	if err := hold.Release(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	s.wantGets(t, "late")
	eventually(t, "no connection left", func() bool { return p.Connections() == 0 })
}

func TestTrap_CatchesOneRequestEach(t *testing.T) {
	p, s := newProxy(t)
	first, second := p.HoldRequest(nil), p.HoldRequest(nil)
	a, b, c := dial(t, p), dial(t, p), dial(t, p)
	a.send(t, "a")
	if err := first.Wait(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	b.send(t, "b")
	if err := second.Wait(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	c.wantEcho(t, "c")
	s.wantGets(t, "c")
	if err := second.Release(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	b.wantReply(t, "b")
	a.wantSilence(t)
	p.Mend()
	a.wantReply(t, "a")
	if err := first.Release(withWatchdog(t)); err != nil {
		t.Errorf("Release after Mend: %v", err)
	}
}

func TestTrap_Release_DisarmsATrapThatCaughtNothing(t *testing.T) {
	p, _ := newProxy(t)
	for _, trap := range []interface {
		Release(context.Context) error
	}{p.HoldRequest(nil), p.SwallowReply(nil)} {
		if err := trap.Release(withWatchdog(t)); err != nil {
			t.Fatal(err)
		}
	}
	dial(t, p).wantEcho(t, "free")
}

func TestTrap_Release_SaysThatTheConnectionIsGone(t *testing.T) {
	p, s := newProxy(t)
	hold := p.HoldRequest(nil)
	dial(t, p).send(t, "never")
	if err := hold.Wait(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	err := hold.Release(withWatchdog(t))
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Release after Cut: %v, want an error of the connection", err)
	}
	s.wantGetsNothing(t)
}

func TestTrap_Release_SaysThatTheRequestWasDropped(t *testing.T) {
	p, s := newProxy(t)
	hold := p.HoldRequest(nil)
	dial(t, p).send(t, "never")
	if err := hold.Wait(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	p.Drop()
	err := hold.Release(withWatchdog(t))
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Release while dropping: %v, want an error that says so", err)
	}
	s.wantGetsNothing(t)
}

func TestTrap_Release_LetsGoAlsoWhenItsContextEnds(t *testing.T) {
	p, _ := newProxy(t)
	c := dial(t, p)
	hold := p.HoldRequest(nil)
	c.send(t, "released")
	if err := hold.Wait(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	p.Freeze()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := hold.Release(ended); !errors.Is(err, context.Canceled) {
		t.Fatalf("Release while frozen: %v, want the context's error", err)
	}
	p.Thaw()
	c.wantReply(t, "released")
}

func TestTrap_Wait_EndsWithItsContext(t *testing.T) {
	p, _ := newProxy(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.HoldRequest(nil).Wait(ended); !errors.Is(err, context.Canceled) {
		t.Fatalf("Wait = %v, want the context's error", err)
	}
}

func TestProxy_Mend_EndsEveryFault(t *testing.T) {
	p, _ := newProxy(t)
	held := dial(t, p)
	hold := p.HoldRequest(containing("held"))
	held.send(t, "held")
	if err := hold.Wait(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	p.SwallowReply(nil)
	p.HoldRequest(nil)
	p.Freeze()
	frozen := dial(t, p)
	if _, err := io.WriteString(frozen, "frozen\n"); err != nil {
		t.Fatal(err)
	}
	p.Mend()
	held.wantReply(t, "held")
	frozen.wantReply(t, "frozen")
	frozen.wantEcho(t, "after")
}
