package netfault_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goleader/leader/backend/backendtest/netfault"
)

const (
	watchdog = 20 * time.Second       // for what must happen
	quiet    = 100 * time.Millisecond // for what must not
)

// Lines that the server treats specially.
const (
	slow = "slow" // is answered when the test says so
	quit = "quit" // is answered by the end of the connection
)

// server answers each line with "ok " and the line, and tells which lines it got.
type server struct {
	addr     string
	lines    chan string
	answer   chan struct{}
	accepted atomic.Int64
}

func newServer(t *testing.T) *server {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: listener.Addr().String(), lines: make(chan string, 1000), answer: make(chan struct{}, 1)}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		close(s.answer)
		running.Wait()
	})
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.accepted.Add(1)
			running.Go(func() { s.serve(conn) })
		}
	})
	return s
}

func (s *server) serve(conn net.Conn) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		s.lines <- line
		switch line {
		case slow + "\n":
			<-s.answer
		case quit + "\n":
			return
		}
		if _, err := io.WriteString(conn, "ok "+line); err != nil {
			return
		}
	}
}

func (s *server) wantGets(t *testing.T, line string) {
	t.Helper()
	select {
	case got := <-s.lines:
		if got != line+"\n" {
			t.Fatalf("server got %q, want %q", got, line)
		}
	case <-time.After(watchdog):
		t.Fatalf("server did not get %q", line)
	}
}

func (s *server) wantGetsNothing(t *testing.T) {
	t.Helper()
	select {
	case got := <-s.lines:
		t.Fatalf("server got %q, want nothing", got)
	case <-time.After(quiet):
	}
}

// client is one connection through the proxy.
type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, p *netfault.Proxy) *client {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{Conn: conn, in: bufio.NewReader(conn)}
}

func (c *client) send(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (c *client) read(within time.Duration) (string, error) {
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	return c.in.ReadString('\n')
}

func (c *client) wantReply(t *testing.T, line string) {
	t.Helper()
	if got, err := c.read(watchdog); err != nil || got != "ok "+line+"\n" {
		t.Fatalf("client read %q, %v; want the reply to %q", got, err, line)
	}
}

func (c *client) wantEcho(t *testing.T, line string) {
	t.Helper()
	c.send(t, line)
	c.wantReply(t, line)
}

// wantSilence checks that the connection neither yields bytes nor ends.
func (c *client) wantSilence(t *testing.T) {
	t.Helper()
	if got, err := c.read(quiet); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("client read %q, %v; want silence", got, err)
	}
}

// wantEnd checks that the connection is over; a timeout is no end.
func (c *client) wantEnd(t *testing.T) {
	t.Helper()
	if got, err := c.read(watchdog); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("client read %q, %v; want the end of the connection", got, err)
	}
}

// wantRefused checks that a new connection is reset, at once or as soon as it is used.
func wantRefused(t *testing.T, p *netfault.Proxy) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr())
	if err != nil {
		return
	}
	defer conn.Close()
	(&client{Conn: conn, in: bufio.NewReader(conn)}).wantEnd(t)
}

func newProxy(t *testing.T) (*netfault.Proxy, *server) {
	t.Helper()
	s := newServer(t)
	return listen(t, s.addr), s
}

func listen(t *testing.T, target string) *netfault.Proxy {
	t.Helper()
	p, err := netfault.Listen(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// eventually waits for a condition that no channel tells of.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(watchdog); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func withWatchdog(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	t.Cleanup(cancel)
	return ctx
}
