package netfault_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestProxy_ForwardsAndCounts(t *testing.T) {
	p, _ := newProxy(t)
	a, b := dial(t, p), dial(t, p)
	a.wantEcho(t, "1")
	b.wantEcho(t, "2")
	a.wantEcho(t, "3")
	if n, total := p.Connections(), p.Accepted(); n != 2 || total != 2 {
		t.Errorf("Connections() = %d, Accepted() = %d, want 2, 2", n, total)
	}
	_ = a.Close()
	eventually(t, "one connection left", func() bool { return p.Connections() == 1 })
	b.wantEcho(t, "4")
	if total := p.Accepted(); total != 2 {
		t.Errorf("Accepted() = %d after a close, want 2", total)
	}
}

func TestProxy_ForwardsWhatIsLargerThanAChunk(t *testing.T) {
	p, _ := newProxy(t)
	dial(t, p).wantEcho(t, strings.Repeat("x", 1<<20))
}

func TestProxy_PassesOnAHalfClose(t *testing.T) {
	p, _ := newProxy(t)
	c := dial(t, p)
	c.send(t, "last")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.wantReply(t, "last")
	c.wantEnd(t)
	eventually(t, "no connection left", func() bool { return p.Connections() == 0 })
}

func TestProxy_PassesOnTheEndOfTheServer(t *testing.T) {
	p, _ := newProxy(t)
	c := dial(t, p)
	c.send(t, quit)
	if got, err := c.read(watchdog); !errors.Is(err, io.EOF) {
		t.Fatalf("client read %q, %v; want the end", got, err)
	}
	_ = c.Close()
	eventually(t, "no connection left", func() bool { return p.Connections() == 0 })
}

func TestProxy_ResetsWhenTheServerIsDown(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	wantRefused(t, listen(t, listener.Addr().String()))
}

func TestProxy_Freeze_StopsBothDirectionsUntilTheThaw(t *testing.T) {
	p, s := newProxy(t)
	c := dial(t, p)
	c.wantEcho(t, "before")
	s.wantGets(t, "before")

	p.Freeze()
	c.send(t, "during")
	s.wantGetsNothing(t)
	c.wantSilence(t)

	p.Thaw()
	s.wantGets(t, "during")
	c.wantReply(t, "during")
	c.wantEcho(t, "after")
}

func TestProxy_Freeze_StopsAReplyOnItsWay(t *testing.T) {
	p, s := newProxy(t)
	c := dial(t, p)
	c.send(t, slow)
	s.wantGets(t, slow)
	p.Freeze()
	s.answer <- struct{}{}
	c.wantSilence(t)
	p.Thaw()
	c.wantReply(t, slow)
}

func TestProxy_Freeze_ServesNewConnectionsAfterTheThaw(t *testing.T) {
	p, s := newProxy(t)
	p.Freeze()
	c := dial(t, p)
	c.send(t, "new")
	s.wantGetsNothing(t)
	c.wantSilence(t)
	if n := s.accepted.Load(); n != 0 {
		t.Errorf("the server has %d connections from a frozen network, want none", n)
	}
	p.Thaw()
	c.wantReply(t, "new")
}

func TestProxy_Freeze_DeliversWhatAGoneClientSent(t *testing.T) {
	p, s := newProxy(t)
	c := dial(t, p)
	c.wantEcho(t, "before")
	s.wantGets(t, "before")
	p.Freeze()
	c.send(t, "late")
	_ = c.Close()
	s.wantGetsNothing(t)
	p.Thaw()
	s.wantGets(t, "late")
	eventually(t, "no connection left", func() bool { return p.Connections() == 0 })
}

func TestProxy_Thaw_EndsNoOtherFault(t *testing.T) {
	p, _ := newProxy(t)
	p.Cut()
	p.Thaw()
	wantRefused(t, p)
}

func TestProxy_Drop_LosesBytesAndResetsAtTheMend(t *testing.T) {
	p, s := newProxy(t)
	used, idle := dial(t, p), dial(t, p)
	used.wantEcho(t, "1")
	idle.wantEcho(t, "2")
	s.wantGets(t, "1")
	s.wantGets(t, "2")
	hold := p.HoldRequest(nil)
	used.send(t, "lost")
	if err := hold.Wait(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}

	p.Drop()
	if err := hold.Release(withWatchdog(t)); err == nil {
		t.Fatal("Release says that a dropped request was delivered")
	}
	made := dial(t, p)
	made.send(t, "lost too")
	eventually(t, "all accepted", func() bool { return p.Accepted() == 3 })
	s.wantGetsNothing(t)
	used.wantSilence(t)
	made.wantSilence(t)

	p.Mend()
	used.wantEnd(t)
	made.wantEnd(t)
	s.wantGetsNothing(t)
	idle.wantEcho(t, "3")
	dial(t, p).wantEcho(t, "4")
}

func TestProxy_Drop_LeavesNoHoleInTheStream(t *testing.T) {
	p, s := newProxy(t)
	c := dial(t, p)
	hold := p.HoldRequest(nil)
	c.send(t, "lost")
	if err := hold.Wait(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	p.Drop()
	if err := hold.Release(withWatchdog(t)); err == nil {
		t.Fatal("Release says that a dropped request was delivered")
	}
	p.Freeze()
	p.Thaw()
	c.send(t, "behind")
	s.wantGetsNothing(t)
	c.wantSilence(t)
	dial(t, p).wantEcho(t, "new")
}

func TestProxy_Drop_LosesAReply(t *testing.T) {
	p, s := newProxy(t)
	c := dial(t, p)
	c.send(t, slow)
	s.wantGets(t, slow)
	p.Drop()
	s.answer <- struct{}{}
	c.wantSilence(t)
}

func TestProxy_Drop_LosesAlsoTheEndOfAConnection(t *testing.T) {
	p, s := newProxy(t)
	c := dial(t, p)
	c.wantEcho(t, "before")
	s.wantGets(t, "before")
	p.Drop()
	_ = c.Close()
	s.wantGetsNothing(t)
	if n := p.Connections(); n != 1 {
		t.Fatalf("Connections() = %d while dropping, want 1", n)
	}
	p.Mend()
	eventually(t, "no connection left", func() bool { return p.Connections() == 0 })
}

func TestProxy_Cut_ResetsOldAndNewConnectionsUntilTheMend(t *testing.T) {
	p, s := newProxy(t)
	c := dial(t, p)
	c.wantEcho(t, "before")
	s.wantGets(t, "before")

	p.Cut()
	if _, err := c.read(watchdog); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read after Cut: %v, want a reset", err)
	}
	wantRefused(t, p)
	if n, total := p.Connections(), p.Accepted(); n != 0 || total != 2 {
		t.Errorf("Connections() = %d, Accepted() = %d, want 0, 2", n, total)
	}
	s.wantGetsNothing(t)

	p.Mend()
	dial(t, p).wantEcho(t, "after")
}

func TestProxy_Delay_SlowsBothDirections(t *testing.T) {
	const delay = 150 * time.Millisecond
	p, _ := newProxy(t)
	c := dial(t, p)
	c.wantEcho(t, "before")
	p.Delay(delay)
	start := time.Now()
	c.wantEcho(t, "delayed")
	if took := time.Since(start); took < 2*delay {
		t.Errorf("a delayed round trip took %v, want at least %v", took, 2*delay)
	}

	p.Delay(time.Hour)
	c.send(t, "waiting")
	c.wantSilence(t)
	p.Delay(0)
	c.wantReply(t, "waiting")
}

func TestProxy_Close_EndsAllGoroutinesUnderEveryFault(t *testing.T) {
	p, _ := newProxy(t)
	idle, held, muted := dial(t, p), dial(t, p), dial(t, p)
	idle.wantEcho(t, "idle")
	swallow := p.SwallowReply(nil)
	muted.send(t, "muted")
	hold := p.HoldRequest(nil)
	if err := swallow.Wait(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	held.send(t, "held")
	if err := hold.Wait(withWatchdog(t)); err != nil {
		t.Fatal(err)
	}
	p.Freeze()
	idle.send(t, "frozen")
	dial(t, p)
	eventually(t, "all accepted", func() bool { return p.Accepted() == 4 })

	p.Close()
	p.Close()
	for _, c := range []*client{idle, held, muted} {
		c.wantEnd(t)
	}
	if n := p.Connections(); n != 0 {
		t.Errorf("Connections() = %d after Close, want 0", n)
	}
	if err := hold.Release(withWatchdog(t)); err == nil {
		t.Error("Release after Close delivered a request")
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if strings.Contains(string(stacks), "netfault.(*Proxy)") {
		t.Errorf("goroutines left after Close:\n%s", stacks)
	}
}

func TestProxy_ConcurrentSafe(t *testing.T) {
	p, s := newProxy(t)
	done := make(chan struct{})
	var sink, clients sync.WaitGroup
	sink.Go(func() {
		for {
			select {
			case <-s.lines:
			case <-done:
				return
			}
		}
	})
	for i := range 8 {
		clients.Go(func() {
			for j := range 30 {
				conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr())
				if err != nil {
					continue // cut
				}
				_ = conn.SetDeadline(time.Now().Add(2 * time.Millisecond))
				_, _ = fmt.Fprintf(conn, "%d.%d\n", i, j)
				_, _ = conn.Read(make([]byte, 100))
				_ = conn.Close()
			}
		})
	}
	faults := []func(){
		p.Freeze, p.Thaw, p.Drop, p.Mend, p.Cut, p.Mend,
		func() { p.Delay(time.Millisecond) },
		func() { p.SwallowReply(nil) },
		func() { p.HoldRequest(nil) },
	}
	for _, fault := range faults {
		clients.Go(func() {
			for range 50 {
				fault()
				p.Connections()
				runtime.Gosched()
			}
		})
	}
	clients.Wait()
	p.Mend()
	dial(t, p).wantEcho(t, "still working")
	p.Close()
	close(done)
	sink.Wait()
}
