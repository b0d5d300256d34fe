package zkleader_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/zkleader"
	"github.com/goleader/leader/internal/testserver"
)

// lost returns the channel of a lease.
func lost(t testing.TB, l backend.Lease) <-chan struct{} {
	t.Helper()
	n, ok := l.(backend.LossNotifier)
	if !ok {
		t.Fatal("the lease is no LossNotifier")
	}
	return n.Lost()
}

func closes(t testing.TB, c <-chan struct{}, within time.Duration) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(within):
		t.Fatalf("the lease is not told within %v that it is lost", within)
	}
}

func TestLease_Lost_IsToldOfAnExpiredSession(t *testing.T) {
	server := ownServer(t)
	for name, age := range map[string]time.Duration{"young": 0, "watched": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			var p tap
			b := open(t, server.Addr(), &zkleader.Options{SessionTimeout: time.Minute, Dial: p.dial})
			l := acquired(t, b, request(name, time.Minute))
			told := lost(t, l)
			time.Sleep(age)
			old := p.session()
			p.expire(t, server.Addr())
			closes(t, told, patience)
			if err := l.Renew(t.Context(), time.Minute); !errors.Is(err, backend.ErrLost) {
				t.Errorf("Renew: %v, want ErrLost", err)
			}
			if err := l.Release(t.Context(), 0); err != nil {
				t.Errorf("Release: %v", err)
			}
			if acquired(t, b, request(name, time.Minute)); p.session() == old {
				t.Error("the session that has ended is used again")
			}
		})
	}
}

// listening dials connections of which it notes the type of the first request, after the greeting.
type listening struct {
	tap

	mu    sync.Mutex
	first []uint32
}

func (d *listening) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.tap.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &listeningConn{Conn: conn, to: d}, nil
}

type listeningConn struct {
	net.Conn

	to     *listening
	writes int
}

func (c *listeningConn) Write(p []byte) (int, error) {
	if c.writes++; c.writes == 2 {
		c.to.mu.Lock()
		c.to.first = append(c.to.first, binary.BigEndian.Uint32(p[8:])) // after its length and number
		c.to.mu.Unlock()
	}
	return c.Conn.Write(p)
}

// A server may lag behind what was written in the session before, also behind what had no answer.
func TestBackend_ALaterSessionBeginsWithASync(t *testing.T) {
	server := ownServer(t)
	var d listening
	b := open(t, server.Addr(), &zkleader.Options{Dial: d.dial})
	acquired(t, b, request("job", 10*time.Second))
	d.expire(t, server.Addr())
	eventually(t, "another session is used", func() bool {
		_, err := b.TryAcquire(t.Context(), request("another", 10*time.Second))
		return err == nil
	})
	const sync = 9
	d.mu.Lock()
	defer d.mu.Unlock()
	if last := len(d.first) - 1; last < 1 || d.first[0] == sync || d.first[last] != sync {
		t.Errorf("the connections begin with requests of the types %v, want that the last one is %d", d.first, sync)
	}
}

func TestElector_WithAnExpiredSession_LosesAtOnceAndIsReplacedWithinTheLease(t *testing.T) {
	server := ownServer(t)
	const ttl = 3 * time.Second
	var p tap
	holder := open(t, server.Addr(), &zkleader.Options{SessionTimeout: ttl, Dial: p.dial})
	other := open(t, server.Addr(), &zkleader.Options{SessionTimeout: ttl})
	node := func(b backend.Driver, id string) *leader.Single {
		e, err := leader.New(b, leader.WithNodeID(id), leader.WithLeaseTime(ttl))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	l, err := node(holder, "first").Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lease is watched", func() bool { return counted(t, server, "zk_watch_count") == 1 })
	next := make(chan error, 1)
	go func() {
		l, err := node(other, "second").Acquire(t.Context(), "job", leader.WithWaitTime(patience))
		if err == nil {
			err = l.Release(context.WithoutCancel(t.Context()))
		}
		next <- err
	}()
	expired := time.Now()
	p.expire(t, server.Addr())
	select {
	case <-l.Context().Done():
	case <-time.After(patience):
		t.Fatal("the context of the lease does not end")
	}
	// The deadline would have another cause.
	if cause := context.Cause(l.Context()); !errors.Is(cause, leader.ErrLeaseLost) || !errors.Is(cause, leader.ErrTakenOver) {
		t.Errorf("the context ended with %v, want ErrLeaseLost, because the session is over", cause)
	}
	if err := <-next; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(expired); took > ttl+time.Second {
		t.Errorf("led again after %v, want within the lease of %v", took, ttl)
	}
}

func TestLease_Renew_OutlivesItsConnection(t *testing.T) {
	server := testserver.ZooKeeper(t)
	proxy, err := netfault.Listen(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	b := open(t, proxy.Addr(), &zkleader.Options{SessionTimeout: 30 * time.Second})
	l := acquired(t, b, request("job", 30*time.Second))
	told := lost(t, l)
	for range 3 {
		proxy.Cut()
		proxy.Mend()
		eventually(t, "the lease is renewed on another connection", func() bool {
			err := l.Renew(t.Context(), 30*time.Second)
			if errors.Is(err, backend.ErrLost) {
				t.Fatal("the lease is lost with its connection")
			}
			return err == nil
		})
	}
	select {
	case <-told:
		t.Error("the lease is told that it is lost")
	default:
	}
}

func TestBackend_ASilentConnectionIsReplacedByTheCallThatIsLate(t *testing.T) {
	server := testserver.ZooKeeper(t)
	proxy, err := netfault.Listen(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	var p tap
	b := open(t, proxy.Addr(), &zkleader.Options{SessionTimeout: 10 * time.Second, Dial: p.dial})
	l := acquired(t, b, request("job", 10*time.Second))
	proxy.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := l.Renew(ctx, 10*time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Renew on a frozen connection: %v, want a deadline", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Renew returned after %v: not before the client noticed by itself", took)
	}
	proxy.Mend()
	if err := l.Renew(t.Context(), 10*time.Second); err != nil {
		t.Errorf("Renew after the freeze: %v", err)
	}
	if p.connections() < 2 {
		t.Error("the silent connection is still used")
	}
}

// deaf fails the second write of its second connection, which repeats the credentials.
type deaf struct{ connections atomic.Int32 }

func (d *deaf) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil && d.connections.Add(1) == 2 {
		conn = &deafConn{Conn: conn}
	}
	return conn, err
}

type deafConn struct {
	net.Conn

	writes int
}

func (c *deafConn) Write(p []byte) (int, error) {
	if c.writes++; c.writes > 1 {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(p)
}

func TestBackend_AConnectionThatBreaksBeforeTheCredentialsAreRepeatedIsReplaced(t *testing.T) {
	server := testserver.ZooKeeper(t)
	proxy, err := netfault.Listen(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	var d deaf
	auth := []zkleader.Auth{{Scheme: "digest", Credential: "app:secret"}}
	b := zkleader.New([]string{proxy.Addr()}, &zkleader.Options{Root: root(t), Auth: auth, Dial: d.dial})
	l := acquired(t, b, request("job", 10*time.Second))
	proxy.Cut()
	proxy.Mend()
	eventually(t, "the lease is renewed with the credentials on a third connection", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		renewed := make(chan error, 1)
		go func() { renewed <- l.Renew(ctx, 10*time.Second) }()
		select {
		case err := <-renewed:
			return err == nil
		case <-ctx.Done():
			return false
		}
	})
	if n := d.connections.Load(); n < 3 {
		t.Errorf("%d connections, want one more than the one that breaks", n)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestBackend_ACanceledCallHarmsNoConnection(t *testing.T) {
	server := testserver.ZooKeeper(t)
	var p tap
	b := open(t, server.Addr(), &zkleader.Options{Dial: p.dial})
	acquired(t, b, request("job", time.Second))
	for i := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Microsecond)
		_, _ = b.Inspect(ctx, "job") // Whether it ends in time does not matter.
		cancel()
	}
	if n := p.connections(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestBackend_Close_EndsItsSessionAndGoroutines(t *testing.T) {
	server := ownServer(t)
	before := runtime.NumGoroutine()
	b := zkleader.New([]string{server.Addr()}, nil)
	acquired(t, b, request("job", 10*time.Second))
	waiting := make(chan error, 1)
	h, err := b.Inspect(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	go func() { waiting <- b.AwaitRelease(t.Context(), "job", h.Seen) }()
	eventually(t, "somebody watches", func() bool { return counted(t, server, "zk_watch_count") == 1 })
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	select {
	case err := <-waiting:
		if err != nil {
			t.Errorf("AwaitRelease: %v, want that Close wakes it", err)
		}
	case <-time.After(patience):
		t.Fatal("Close leaves a waiter behind")
	}
	if _, err := b.Inspect(t.Context(), "job"); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("Inspect after Close: %v", err)
	}
	eventually(t, "the session is gone", func() bool { return counted(t, server, "zk_ephemerals_count") == 0 })
	eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before })

	// The lease was not released, so its time counts.
	other := open(t, server.Addr(), nil)
	refused(t, other, request("job", time.Second))
}

func TestBackend_Close_IsPromptWithoutAServer(t *testing.T) {
	t.Parallel()
	b := zkleader.New([]string{"127.0.0.1:1"}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := b.Inspect(ctx, "job")
	if !errors.Is(err, context.DeadlineExceeded) || backend.KindOf(err) != backend.Unavailable {
		t.Errorf("Inspect without a server: %v of kind %v", err, backend.KindOf(err))
	}
	began := time.Now()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
}

func TestBackend_AwaitRelease_LooksAgainOnTheNextConnection(t *testing.T) {
	server := ownServer(t)
	proxy, err := netfault.Listen(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	opts := &zkleader.Options{SessionTimeout: time.Minute}
	holder, waiter := open(t, server.Addr(), opts), open(t, proxy.Addr(), opts)
	l := acquired(t, holder, request("job", time.Minute))
	h, err := waiter.Inspect(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	await := func() chan error {
		woken := make(chan error, 1)
		go func() { woken <- waiter.AwaitRelease(t.Context(), "job", h.Seen) }()
		return woken
	}
	reconnected := func() {
		t.Helper()
		eventually(t, "it has a connection again", func() bool {
			_, err := waiter.Inspect(t.Context(), "job")
			return err == nil
		})
	}
	for range 3 {
		reconnected()
		woken := await()
		eventually(t, "it watches", func() bool { return counted(t, server, "zk_watch_count") == 1 })
		proxy.Cut()
		select {
		case err := <-woken:
			// The server may have had the watch and the client no answer yet.
			if err != nil && backend.KindOf(err) != backend.Unavailable {
				t.Errorf("AwaitRelease: %v", err)
			}
		case <-time.After(patience):
			t.Fatal("a waiter hears nothing of the end of its connection")
		}
		proxy.Mend()
	}
	reconnected()
	woken := await()
	eventually(t, "it watches", func() bool { return counted(t, server, "zk_watch_count") == 1 })
	if err := l.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-woken:
		if err != nil {
			t.Errorf("AwaitRelease: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("a waiter misses the release on its next connection")
	}
}
