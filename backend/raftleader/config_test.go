package raftleader_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader"
)

func TestOpen_RefusesABadConfig(t *testing.T) {
	secure := func(change func(*tls.Config)) raftleader.Config {
		c := newAuthority(t).config(t)
		change(c)
		return raftleader.Config{Addr: "127.0.0.1:0", TLS: c}
	}
	for _, row := range []struct {
		name   string
		config raftleader.Config
		says   string
	}{
		{"no address", raftleader.Config{}, "no host and port"},
		{"no host", raftleader.Config{Addr: ":0", Advertise: ":7000"}, "has to name a host"},
		{"any host", raftleader.Config{Addr: "127.0.0.1:0", Advertise: "0.0.0.0:7000"}, "has to name a host"},
		{"no port", raftleader.Config{Addr: "127.0.0.1:0", Advertise: "host"}, "no host and port"},
		{"port 0", raftleader.Config{Addr: "127.0.0.1:0", Advertise: "host:0"}, "has to name a port"},
		{"not among peers", raftleader.Config{
			Addr: "127.0.0.1:0", Advertise: "a:1", Peers: []string{"b:1", "c:1"},
		}, `this node's own address, "a:1", is missing`},
		{"a peer twice", raftleader.Config{
			Addr: "127.0.0.1:0", Advertise: "a:1", Peers: []string{"a:1", "b:1", "a:1"},
		}, "twice"},
		{"too short", raftleader.Config{Addr: "127.0.0.1:0", ElectionTimeout: time.Millisecond}, "50ms and 1m0s"},
		{"too long", raftleader.Config{Addr: "127.0.0.1:0", ElectionTimeout: time.Hour}, "50ms and 1m0s"},
		{"negative", raftleader.Config{Addr: "127.0.0.1:0", ElectionTimeout: -1}, "50ms and 1m0s"},
		{"no certificate", raftleader.Config{Addr: "127.0.0.1:0", TLS: &tls.Config{MinVersion: tls.VersionTLS12}}, "certificate"},
		{"any public authority", secure(func(c *tls.Config) { c.RootCAs = nil }), "of any public authority"},
		{"another configuration for some", secure(func(c *tls.Config) {
			c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }
		}), "GetConfigForClient"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b, err := raftleader.Open(t.Context(), row.config)
			if err == nil {
				b.Close()
			}
			if backend.KindOf(err) != backend.Misconfigured {
				t.Fatalf("got %v, want Misconfigured", err)
			}
			if !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want %q in it", err, row.says)
			}
		})
	}
}

func TestOpen_RefusesAnAddressInUse(t *testing.T) {
	c := startNodes(t, 1)
	b, err := raftleader.Open(t.Context(), raftleader.Config{Addr: c.configs[0].Addr})
	if err == nil {
		b.Close()
	}
	if backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("got %v, want Misconfigured", err)
	}
}

func TestOpen_RefusesAFolderInUse(t *testing.T) {
	c := startNodes(t, 1, durable(t))
	b, err := raftleader.Open(t.Context(), raftleader.Config{Addr: "127.0.0.1:0", Dir: c.configs[0].Dir})
	if err == nil {
		b.Close()
	}
	if backend.KindOf(err) != backend.Misconfigured || !strings.Contains(err.Error(), c.configs[0].Dir) {
		t.Errorf("got %v, want Misconfigured and the folder", err)
	}
}

func TestOpen_RefusesAFolderOfAnotherFormat(t *testing.T) {
	c := startNodes(t, 1, durable(t))
	if err := c.list[0].Set("leader/format", "2"); err != nil {
		t.Fatal(err)
	}
	c.kill(0)
	b, err := raftleader.Open(t.Context(), c.configs[0])
	if err == nil {
		b.Close()
	}
	if backend.KindOf(err) != backend.Misconfigured || !strings.Contains(err.Error(), "another format: 2") {
		t.Errorf("got %v, want Misconfigured and the format", err)
	}
}

// A node that cannot read an entry must not go on behind it, or it would come to differ from the others.
func TestBackend_AnEntryOfALaterRelease_StopsTheNode(t *testing.T) {
	c := startNodes(t, 3)
	b := c.list[c.leader()]
	later := []byte{byte(b.Raft().CurrentTerm()), 200} // the term as one byte, and a format
	if err := b.Raft().Apply(later, patience).Error(); err != nil {
		t.Fatal(err)
	}
	// The third stops too if it hears in time that the entry is committed. Otherwise it lacks a quorum.
	stopped := func() int {
		n := 0
		for _, b := range c.list {
			if b.Check() != nil {
				n++
			}
		}
		return n
	}
	eventually(t, "a majority has stopped", func() bool { return stopped() >= 2 })
	for i, b := range c.list {
		err := b.Check()
		if err != nil && (backend.KindOf(err) != backend.Misconfigured || !strings.Contains(err.Error(), "format")) {
			t.Errorf("node %d: %v, want Misconfigured and the reason", i, err)
		}
		if _, err = b.TryAcquire(t.Context(), request("job", "a")); err == nil {
			t.Errorf("node %d grants a lease", i)
		}
	}
}

func TestBackend_ASnapshotOfALaterRelease_StopsTheNode(t *testing.T) {
	c := startNodes(t, 1)
	b := c.list[0]
	if err := b.Restore(io.NopCloser(strings.NewReader("\x02later"))); err == nil {
		t.Error("it is restored")
	}
	if err := b.Check(); backend.KindOf(err) != backend.Misconfigured || !strings.Contains(err.Error(), "format: 2") {
		t.Errorf("got %v, want Misconfigured and the format", err)
	}
	if _, err := b.TryAcquire(t.Context(), request("job", "a")); err == nil {
		t.Error("it grants a lease")
	}
}

// The raft library would take an older snapshot instead.
func TestOpen_RefusesASnapshotOfALaterRelease(t *testing.T) {
	c := startNodes(t, 1, durable(t), snapshots(time.Hour, 1, 4096))
	acquire(t, c.list[0], "job", "a")
	r := c.list[0].Raft()
	if err := r.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	_, store := c.list[0].Stores()
	members := r.GetConfiguration()
	_, transport := raft.NewInmemTransport("")
	sink, err := store.Create(
		raft.SnapshotVersionMax, r.LastIndex()+1, r.CurrentTerm(), members.Configuration(), members.Index(), transport)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Write([]byte{2}); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	c.kill(0)
	b, err := raftleader.Open(t.Context(), c.configs[0])
	if err == nil {
		b.Close()
	}
	if backend.KindOf(err) != backend.Misconfigured || !strings.Contains(err.Error(), "format: 2") {
		t.Errorf("got %v, want Misconfigured and the format", err)
	}
}

func TestBackend_Advise_WarnsOfWhatMayCostSafety(t *testing.T) {
	for _, row := range []struct {
		name  string
		nodes int
		says  string // "" for no warning
	}{
		{"one node in memory", 1, "a restart forgets every lease"},
		{"two nodes", 2, "while one of them is away"},
		{"three nodes", 3, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := startNodes(t, row.nodes)
			list, err := c.list[0].Advise(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(list, "\n")
			if row.says == "" && got != "" || !strings.Contains(got, row.says) {
				t.Errorf("got %q, want %q", got, row.says)
			}
		})
	}
	t.Run("one node on disk", func(t *testing.T) {
		c := startNodes(t, 1, durable(t))
		if list, err := c.list[0].Advise(t.Context()); err != nil || len(list) > 0 {
			t.Errorf("got %q, %v, want no warning", list, err)
		}
	})
	t.Run("beyond this machine", func(t *testing.T) {
		for _, secure := range []bool{false, true} {
			c := raftleader.Config{Addr: "127.0.0.1:0", Advertise: "node.example:7000", Dir: t.TempDir()}
			if secure {
				c.TLS = newAuthority(t).config(t)
				c.TLS.ServerName = "127.0.0.1"
			}
			if list := advice(t, c); (len(list) == 1 && strings.Contains(list[0], "without TLS")) == secure {
				t.Errorf("TLS %v: got %q", secure, list)
			}
		}
	})
}

// advice is that of a node alone which can be reached at its own address, whatever it is called.
func advice(t testing.TB, c raftleader.Config) []string {
	t.Helper()
	l := listen(t, c.Addr)
	c.WithListener(l)
	c.WithDial(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, l.Addr().String())
	})
	b, err := raftleader.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	list, err := b.Advise(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestConfig_Logger_GetsWhatTheLibraryLogs(t *testing.T) {
	var text syncBuffer
	c := newNodes(t, 1, func(_ int, c *raftleader.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	c.start(0)
	c.leader()
	for _, want := range []string{"level=INFO", "entering leader state", "level=DEBUG"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
}

// syncBuffer is a buffer that is written and read concurrently.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}
