package etcdleader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/etcdleader"
	"github.com/goleader/leader/internal/testserver"
)

// metric sums a metric of the server over its labels.
func metric(t testing.TB, server *testserver.Server, name string) (sum float64) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Addr()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, name) {
			continue
		}
		fields := strings.Fields(line)
		n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// requests are all messages that the server has received from clients.
func requests(t testing.TB, server *testserver.Server) int {
	t.Helper()
	return int(metric(t, server, "grpc_server_msg_received_total"))
}

func watches(t testing.TB, server *testserver.Server) int {
	t.Helper()
	return int(metric(t, server, "etcd_debugging_mvcc_watcher_total"))
}

// requestsAtRest waits until there are no more requests, those after the beginning of a watch say.
func requestsAtRest(t testing.TB, server *testserver.Server) int {
	t.Helper()
	before, now := -1, requests(t, server)
	for end := time.Now().Add(patience); now != before; before, now = now, requests(t, server) {
		if time.Now().After(end) {
			t.Fatalf("still requests after %v", patience)
		}
		time.Sleep(5 * brief)
	}
	return now
}

func TestBackend_AwaitRelease_ReturnsAtOnceWhenTheStateIsAnother(t *testing.T) {
	b, client := start(t)
	woken(t, "a key that nobody had", await(t.Context(), b, "none", ""))

	lease := win(t, b, request("a", long))
	old := holder(t, b, "a").Seen
	woken(t, "nothing seen", await(t.Context(), b, "a", ""))
	release(t, lease, 0)
	woken(t, "released meanwhile", await(t.Context(), b, "a", old))
	lease = win(t, b, request("a", long))
	woken(t, "taken by another meanwhile", await(t.Context(), b, "a", old))
	now := holder(t, b, "a").Seen
	release(t, lease, long)
	woken(t, "kept meanwhile", await(t.Context(), b, "a", now))
	kept := holder(t, b, "a").Seen
	wait := await(t.Context(), b, "a", kept)
	waiting(t, wait)
	release(t, lease, time.Minute)
	woken(t, "kept for another time", wait)

	win(t, b, request("b", long))
	seen := holder(t, b, "b").Seen
	wait = await(t.Context(), b, "b", seen)
	waiting(t, wait)
	if _, err := client.Revoke(t.Context(), leaseOf(t, client, b.Place("b"))); err != nil {
		t.Fatal(err)
	}
	woken(t, "the end of a lease", wait)
}

// A release may come at any moment of the call: before the watch, before the look, after it.
func TestBackend_AwaitRelease_MissesNoRelease_ConcurrentSafe(t *testing.T) {
	b, _ := start(t)
	for round := range 200 {
		key := "a"
		if round%3 == 0 {
			key = "fresh-" + strconv.Itoa(round) // which is not watched
		}
		lease := win(t, b, request(key, long))
		wait := await(t.Context(), b, key, holder(t, b, key).Seen)
		time.Sleep(time.Duration(round%10) * 50 * time.Microsecond)
		release(t, lease, 0)
		woken(t, "round "+strconv.Itoa(round), wait)
	}
}

func TestBackend_AwaitRelease_SharesAWatchAndIdlesForFree(t *testing.T) {
	server := ownServer(t)
	b := open(t, connect(t, server), nil)
	const names, each = 10, 100
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waits sync.WaitGroup
	for i := range names {
		key := strconv.Itoa(i)
		win(t, b, request(key, long))
		seen := holder(t, b, key).Seen
		for range each {
			waits.Go(func() {
				if err := b.AwaitRelease(ctx, key, seen); !errors.Is(err, context.Canceled) {
					t.Errorf("AwaitRelease: %v", err)
				}
			})
		}
	}
	eventually(t, "every key is watched", func() bool { return watches(t, server) == names })
	if n := metric(t, server, `grpc_server_started_total{grpc_method="Watch"`); n != 1 {
		t.Errorf("%v streams of watches, want 1", n)
	}
	before := requestsAtRest(t, server)
	time.Sleep(time.Second)
	if n := requests(t, server) - before; n > 5 {
		t.Errorf("%d requests in a second of waiting", n)
	}
	cancel()
	waits.Wait()
}

func TestBackend_HandOff_CostsOneRequestForEachWaitingProcess(t *testing.T) {
	server := ownServer(t)
	client := connect(t, server)
	const processes, handOffs = 200, 5
	holding := open(t, client, nil)
	lease := win(t, holding, request("job", long))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	var tries atomic.Int64
	won := make(chan backend.Lease)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for range processes {
		b := open(t, client, nil)
		seen := holder(t, b, "job").Seen
		running.Go(func() {
			for {
				if b.AwaitRelease(ctx, "job", seen) != nil {
					return
				}
				l, err := b.TryAcquire(ctx, request("job", long))
				tries.Add(1)
				if err == nil {
					won <- l
					return
				}
				held, ok := errors.AsType[*backend.HeldError](err)
				if !ok {
					t.Errorf("TryAcquire: %v", err)
					return
				}
				seen = held.Holder.Seen
			}
		})
	}
	eventually(t, "all wait", func() bool { return watches(t, server) == processes })
	before := requestsAtRest(t, server)
	for i := range handOffs {
		release(t, lease, 0)
		select {
		case lease = <-won:
		case <-time.After(patience):
			t.Fatal("nobody wins")
		}
		want := int64(0)
		for j := range i + 1 {
			want += processes - int64(j)
		}
		eventually(t, "all have tried", func() bool { return tries.Load() == want })
	}
	var limit int
	for i := range handOffs {
		limit += 2 + processes - i
	}
	if n := requests(t, server) - before; n > limit {
		t.Errorf("%d requests for %d hand-offs, want at most %d", n, handOffs, limit)
	} else {
		t.Logf("%d requests for %d hand-offs, at most %d", n, handOffs, limit)
	}
}

func TestBackend_GivingUp_LeavesNothingBehind(t *testing.T) {
	server := ownServer(t)
	client := connect(t, server)
	holding := open(t, client, nil)
	const names = 20
	var seen [names]string
	for i := range names {
		key := strconv.Itoa(i)
		win(t, holding, request(key, long))
		seen[i] = holder(t, holding, key).Seen
	}
	before := runtime.NumGoroutine()
	b := etcdleader.New(connect(t, server), nil)
	var giving sync.WaitGroup
	for worker := range 10 {
		giving.Go(func() {
			for i := range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%10+1)*time.Millisecond)
				key := (worker + i) % names
				req := request(strconv.Itoa(key), long)
				_, err := b.TryAcquire(ctx, req)
				if errors.Is(err, backend.ErrHeld) {
					err = b.AwaitRelease(ctx, req.Key, seen[key])
				}
				cancel()
				// The server may give up a moment before the client does.
				if !errors.Is(err, context.DeadlineExceeded) && backend.KindOf(err) != backend.Unavailable {
					t.Errorf("giving up: %v", err)
				}
				if err := b.Abandon(t.Context(), req); err != nil {
					t.Errorf("Abandon: %v", err)
				}
			}
		})
	}
	giving.Wait()
	// Of an attempt that was given up in the middle of a grant the keeper has to hear first whether it was made.
	eventually(t, "only the pool has more leases", func() bool { return len(leases(t, client)) <= names+1+10 })
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := holding.Close(); err != nil {
		t.Error(err)
	}
	if list := keys(t, client, holding.Place("")); len(list) != names {
		t.Errorf("keys %q, want those of the %d holders", list, names)
	}
	eventually(t, "only the holders have leases", func() bool { return len(leases(t, client)) == names })
	eventually(t, "no watch is left", func() bool { return watches(t, server) == 0 })
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+10 })
	stacks := make([]byte, 1<<20)
	text := string(stacks[:runtime.Stack(stacks, true)])
	for _, owner := range []string{"etcdleader.(*pool)", "etcdleader.(*notifier)", "etcdleader.(*keepAliver)"} {
		if strings.Contains(text, owner) {
			t.Errorf("goroutines of %s are left:\n%s", owner, text)
		}
	}
}

func TestBackend_Close_EndsWaitersAndLeavesLeasesAlone(t *testing.T) {
	b, client := start(t)
	lease := win(t, b, request("a", long))
	release(t, win(t, b, request("b", long)), 0)
	seen := holder(t, b, "a").Seen
	wait := await(t.Context(), b, "a", seen)
	waiting(t, wait)
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := result(t, "Close", wait); err == nil {
		t.Error("the waiter was told of a release")
	}
	if err := result(t, "a closed backend", await(t.Context(), b, "a", seen)); err == nil {
		t.Error("AwaitRelease works after Close")
	}
	for h, err := range b.Watch(t.Context(), "a") {
		if err == nil {
			t.Errorf("Watch works after Close: %+v", h)
		}
	}
	if list := leases(t, client); len(list) != 1 || list[0] != leaseOf(t, client, b.Place("a")) {
		t.Errorf("leases %x, want that of the holder alone", list)
	}
	renew(t, lease)
	release(t, lease, 0)
	if !inspect(t, b, "a").Free() {
		t.Error("not free")
	}
	lease = win(t, b, request("a", long))
	renew(t, lease)
	release(t, lease, 0)
}

func TestBackend_Watch_GoesOnOverARestart(t *testing.T) {
	server := ownServer(t)
	b := open(t, connectTo(t, clientv3.Config{Endpoints: []string{server.Addr()}}), nil)
	sights := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		for ctx.Err() == nil { // a watch may end when the server has no leader for long
			for h, err := range b.Watch(ctx, "job") {
				if err == nil {
					sights <- fmt.Sprintf("%s %d", h.Owner, h.Fence)
				}
			}
		}
	})
	sees := func(want string) {
		t.Helper()
		for {
			select {
			case got := <-sights:
				if got == want {
					return
				}
			case <-time.After(patience):
				t.Fatalf("Watch does not yield %q", want)
			}
		}
	}
	sees(" 0")
	lease := win(t, b, request("job", long))
	sees(fmt.Sprintf("node-1 %d", lease.Fence()))
	server.Restart(t)
	eventually(t, "the release is answered", func() bool { return lease.Release(t.Context(), 0) == nil })
	sees(" 0")
}
