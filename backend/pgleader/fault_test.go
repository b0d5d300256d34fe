package pgleader_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/internal/testserver"
)

// behind returns a backend whose connections go through a proxy, and the proxy.
func behind(t testing.TB, d *database) (b interface {
	backend.Driver
	backend.Waiter
	backend.Watcher
	Close() error
}, proxy *netfault.Proxy,
) {
	t.Helper()
	proxy = listen(t, d.server)
	return d.open(t, newPool(t, d.config(t, proxy.Addr()))), proxy
}

func TestBackend_FrozenConnection_EndsEveryCallWithItsContext(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	b, proxy := behind(t, d)
	lease := win(t, b, request("a", long))
	seen := inspect(t, b, "a").Seen
	waiting(t, await(t.Context(), b, "a", seen))
	renew(t, lease, 2*long)
	proxy.Freeze()
	var calls sync.WaitGroup
	for name, call := range map[string]func(ctx context.Context) error{
		"TryAcquire":   func(ctx context.Context) error { _, err := b.TryAcquire(ctx, request("b", long)); return err },
		"Inspect":      func(ctx context.Context) error { _, err := b.Inspect(ctx, "a"); return err },
		"Renew":        func(ctx context.Context) error { return lease.Renew(ctx, long) },
		"Release":      func(ctx context.Context) error { return lease.Release(ctx, 0) },
		"Abandon":      func(ctx context.Context) error { return b.Abandon(ctx, request("b", long)) },
		"AwaitRelease": func(ctx context.Context) error { return b.AwaitRelease(ctx, "a", seen) },
		"Watch": func(ctx context.Context) (last error) {
			for _, err := range b.Watch(ctx, "a") {
				last = err
			}
			return last
		},
	} {
		calls.Go(func() {
			for range 10 { // until no connection is left that was open before
				ctx, cancel := context.WithTimeout(t.Context(), brief)
				began := time.Now()
				err := call(ctx)
				took := time.Since(began)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v, want an error that wraps the context's", name, err)
				}
				if took > brief+patience/4 {
					t.Errorf("%s took %v of %v", name, took, brief)
				}
			}
		})
	}
	calls.Wait()
	proxy.Thaw()
	eventually(t, "it works again", func() bool {
		return lease.Renew(t.Context(), long) == nil || !holderIs(t, b, "a", lease)
	})
	eventually(t, "what was given up is closed", func() bool { return d.sessions(t, d.schema+"%") <= 8+2 })
}

// holderIs reports whether the lease has the key.
func holderIs(t testing.TB, b backend.Driver, key string, lease backend.Lease) bool {
	t.Helper()
	h, err := b.Inspect(t.Context(), key)
	return err != nil || h.Fence == lease.Fence() && !h.Kept
}

func TestBackend_Close_EndsWhileTheConnectionIsFrozen(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	b, proxy := behind(t, d)
	lease := win(t, b, request("a", long))
	renew(t, lease, 2*long)
	wait := await(t.Context(), b, "a", inspect(t, b, "a").Seen)
	waiting(t, wait)
	proxy.Freeze()
	defer proxy.Thaw()
	renewal := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 5*brief)
		defer cancel()
		renewal <- lease.Renew(ctx, long)
	}()
	waiting(t, renewal)
	began := time.Now()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
	if err := result(t, "Close", wait); err == nil {
		t.Error("the waiter was told of a release")
	}
	if err := result(t, "its context", renewal); err == nil {
		t.Error("a renewal over a frozen connection succeeded")
	}
}

// A path that swallows packets takes away the connections that use it, and not those opened later.
func TestBackend_SilentConnection_DoesNotKeepTheNextFromBeingUsed(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	var (
		mu    sync.Mutex
		proxy = listen(t, d.server)
		addr  = proxy.Addr()
	)
	pool := d.pool(t, most(2), func(c *pgxpool.Config) {
		c.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			mu.Lock()
			defer mu.Unlock()
			c.Port = port(t, addr)
			return nil
		}
	})
	b := d.open(t, pool)
	lease := win(t, b, request("a", long))
	eventually(t, "the own connection is open", func() bool {
		renew(t, lease, 2*long)
		return d.owned(t, "keep") == 1
	})
	exhaust(t, pool)
	proxy.Drop()
	mu.Lock()
	addr = d.server.Addr()
	mu.Unlock()
	began := time.Now()
	eventually(t, "a renewal succeeds", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*brief)
		defer cancel()
		return lease.Renew(ctx, 2*long) == nil
	})
	if took := time.Since(began); took > 5*time.Second { // pgx itself takes 15 s
		t.Errorf("it took %v to get over a dead connection", took)
	}
}

// Who waits for the own connection when another gives it up waits for its successor, and not for an exhausted pool.
func TestBackend_SilentConnection_DoesNotHoldUpWhoWaitsForIt(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	var (
		mu    sync.Mutex
		proxy = listen(t, d.server)
		addr  = proxy.Addr()
	)
	pool := d.pool(t, most(2), func(c *pgxpool.Config) {
		c.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			mu.Lock()
			defer mu.Unlock()
			c.Port = port(t, addr)
			return nil
		}
	})
	b := d.open(t, pool)
	first, second := win(t, b, request("a", long)), win(t, b, request("b", long))
	eventually(t, "the own connection is open", func() bool {
		renew(t, first, 2*long)
		return d.owned(t, "keep") == 1
	})
	exhaust(t, pool)
	proxy.Drop()
	mu.Lock()
	addr = d.server.Addr()
	mu.Unlock()
	stuck, stop := context.WithCancel(t.Context())
	defer stop()
	given, waited := make(chan error, 1), make(chan error, 1)
	go func() { given <- first.Renew(stuck, 2*long) }()
	waiting(t, given) // it has the connection
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience/2)
		defer cancel()
		waited <- second.Renew(ctx, 2*long)
	}()
	waiting(t, waited)
	stop()
	if err := result(t, "its context", given); !errors.Is(err, context.Canceled) {
		t.Errorf("Renew over a silent connection: %v", err)
	}
	woken(t, "another connection", waited)
}

func port(t testing.TB, addr string) uint16 {
	t.Helper()
	_, text, _ := bytes.Cut([]byte(addr), []byte(":"))
	n, err := strconv.ParseUint(string(text), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(n)
}

// Nothing that was given up is applied much later, where the server answers.
func TestBackend_CanceledAttempt_EndsAtTheServerToo(t *testing.T) {
	d := newDatabase(t, testserver.Postgres(t))
	pool := d.pool(t)
	b := d.open(t, pool)
	release(t, win(t, b, request("a", long)), 0)
	unlock := lock(t, d, "a")
	for range 10 {
		// Long enough for the statement to have begun: the server ignores a cancellation that comes before.
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, err := b.TryAcquire(ctx, request("a", long)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("TryAcquire of a locked row: %v", err)
		}
		cancel()
	}
	eventually(t, "the server has ended what waits for the row", func() bool {
		return d.sessions(t, d.schema) == int(pool.Stat().IdleConns())
	})
	unlock()
	if h := inspect(t, b, "a"); !h.Free() {
		t.Errorf("an attempt that was given up has the key: %+v", h)
	}
}

func TestBackend_WorksInEveryExecMode(t *testing.T) {
	server := testserver.Postgres(t)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			d := newDatabase(t, server)
			b := d.open(t, d.pool(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }))
			req := request("a", long)
			req.Metadata = map[string]string{"quote": `'"{\`}
			lease := win(t, b, req)
			h := holder(t, b, "a")
			if h.Metadata["quote"] != req.Metadata["quote"] || h.Fence != lease.Fence() {
				t.Errorf("holder %+v", h)
			}
			wait := await(t.Context(), b, "a", h.Seen)
			waiting(t, wait)
			sees(t, watch(t.Context(), t, b, "a"), "the holder", fenced(lease))
			renew(t, lease, 2*long)
			release(t, lease, long)
			woken(t, "the release", wait)
			if err := b.Break(t.Context(), "a", lease.Fence()); err != nil {
				t.Errorf("Break: %v", err)
			}
			req = request("a", long)
			win(t, b, req)
			if err := b.Abandon(t.Context(), req); err != nil {
				t.Errorf("Abandon: %v", err)
			}
			if _, _, err := b.TryAcquireSlot(t.Context(), request("group", long), 3); err != nil {
				t.Errorf("TryAcquireSlot: %v", err)
			}
			value := []byte("a\x00\xff'")
			if _, err := b.PutRecord(t.Context(), backend.Record{Key: "a!run/1", Value: value, TTL: long}); err != nil {
				t.Errorf("PutRecord: %v", err)
			}
			list, _, err := b.GetRecords(t.Context(), "a!run/")
			if err != nil || len(list) != 1 || !bytes.Equal(list[0].Value, value) {
				t.Fatalf("GetRecords: %+v, %v", list, err)
			}
			if err := b.DeleteRecord(t.Context(), list[0]); err != nil {
				t.Errorf("DeleteRecord: %v", err)
			}
			held := 0
			for _, err := range b.List(t.Context(), "", false) {
				if err != nil {
					t.Errorf("List: %v", err)
				}
				held++
			}
			if held != 1 {
				t.Errorf("%d keys are held, want 1", held)
			}
			if warnings, err := b.Advise(t.Context()); err != nil || len(warnings) > 0 {
				t.Errorf("Advise: %q, %v", warnings, err)
			}
		})
	}
}
