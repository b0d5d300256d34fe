package zkleader_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader/internal/testserver"
)

// ask sends a command of four letters and returns the answer.
func ask(t testing.TB, s *testserver.Server, command string) string {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, command); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// counted returns a figure of the server, as "zk_watch_count".
func counted(t testing.TB, s *testserver.Server, figure string) int {
	t.Helper()
	match := regexp.MustCompile(figure + `\s+(\d+)`).FindStringSubmatch(ask(t, s, "mntr"))
	if match == nil {
		t.Fatalf("the server does not tell %s", figure)
	}
	n, err := strconv.Atoi(match[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// tap dials for a backend and notes what the server says first: the identity of the session.
type tap struct {
	gate  sync.Mutex // for new connections
	mu    sync.Mutex
	heads [][]byte // of each connection
	addr  string   // of the newest
}

func (p *tap) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	p.gate.Lock()
	defer p.gate.Unlock()
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heads, p.addr = append(p.heads, nil), addr
	return &tapped{conn, p, len(p.heads) - 1}, nil
}

type tapped struct {
	net.Conn

	tap *tap
	i   int
}

// The first answer is a length, version, timeout, session and password with its length.
const (
	sessionAt   = 12
	passwordEnd = 40
)

func (c *tapped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.tap.mu.Lock()
	defer c.tap.mu.Unlock()
	if head := c.tap.heads[c.i]; len(head) < passwordEnd {
		c.tap.heads[c.i] = append(head, p[:n]...)
	}
	return n, err
}

// connections returns how often the backend has connected.
func (p *tap) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.heads)
}

// server returns where the newest connection leads.
func (p *tap) server() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addr
}

// session returns the newest session.
func (p *tap) session() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return binary.BigEndian.Uint64(p.heads[len(p.heads)-1][sessionAt:])
}

// expire ends the newest session on the server, behind the client's back: whoever knows a session may take it over
// and close it. The client must not take it back meanwhile.
func (p *tap) expire(t testing.TB, addr string) {
	t.Helper()
	p.gate.Lock()
	defer p.gate.Unlock()
	p.mu.Lock()
	head := p.heads[len(p.heads)-1]
	p.mu.Unlock()
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	hello := make([]byte, 16, 64) // version, last zxid, timeout
	binary.BigEndian.PutUint32(hello[12:], 10_000)
	hello = append(hello, head[sessionAt:passwordEnd]...)
	goodbye := []byte{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5} // a request of the type -11
	for _, packet := range [][]byte{hello, goodbye} {
		if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(packet))), packet...)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.ReadAll(conn); err != nil {
		t.Fatal(err)
	}
}
