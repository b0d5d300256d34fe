package redisleader_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/redisleader"
	"github.com/goleader/leader/internal/testserver"
)

// await starts to wait and returns the result.
func await(ctx context.Context, b backend.Waiter, key, seen string) <-chan error {
	result := make(chan error, 1)
	go func() { result <- b.AwaitRelease(ctx, key, seen) }()
	return result
}

// result receives before the watchdog barks.
func result(t testing.TB, what string, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(patience):
		t.Fatalf("still waiting after %v: %s", patience, what)
		return nil
	}
}

func woken(t testing.TB, what string, c <-chan error) {
	t.Helper()
	if err := result(t, what, c); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func waiting(t testing.TB, c <-chan error) {
	t.Helper()
	select {
	case err := <-c:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(brief):
	}
}

// subscriptions is what the server says of its pub/sub clients: how many there are and of how many channels.
func subscriptions(t testing.TB, client *redis.Client) (clients, channels int) {
	t.Helper()
	list, err := client.Do(t.Context(), "client", "list", "type", "pubsub").Text()
	if err != nil {
		t.Fatal(err)
	}
	for field := range strings.FieldsSeq(list) {
		for _, prefix := range []string{"sub=", "ssub="} {
			if n, ok := strings.CutPrefix(field, prefix); ok {
				channels += int(number(t, n))
			}
		}
	}
	return strings.Count(list, "\n"), channels
}

// subscribed waits until the server has that many subscriptions.
func subscribed(t testing.TB, client *redis.Client, channels int) {
	t.Helper()
	eventually(t, strconv.Itoa(channels)+" subscriptions", func() bool {
		_, n := subscriptions(t, client)
		return n == channels
	})
}

// scripts is how many scripts the server has run.
func scripts(t testing.TB, client *redis.Client) int64 {
	t.Helper()
	return calls(t, client, "evalsha")
}

func TestBackend_AwaitRelease_WakesOnARelease(t *testing.T) {
	server := testserver.Redis(t)
	holding := open(t, connect(t, server), nil)
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			client := redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: protocol})
			t.Cleanup(func() { _ = client.Close() })
			b := open(t, client, nil)
			for name, end := range map[string]func(lease backend.Lease, req backend.Request) error{
				"release": func(l backend.Lease, _ backend.Request) error { return l.Release(t.Context(), 0) },
				"keep":    func(l backend.Lease, _ backend.Request) error { return l.Release(t.Context(), brief) },
				"abandon": func(_ backend.Lease, r backend.Request) error { return holding.Abandon(t.Context(), r) },
			} {
				key := name + strconv.Itoa(protocol)
				req := request(key, long)
				lease := win(t, holding, req)
				wait := await(t.Context(), b, key, holder(t, b, key).Seen)
				waiting(t, wait)
				renew(t, lease, 2*long)
				waiting(t, wait)
				if err := end(lease, req); err != nil {
					t.Fatal(err)
				}
				woken(t, name, wait)
			}
		})
	}
}

func TestBackend_AwaitRelease_ReturnsAtOnceWhenTheStateIsAnother(t *testing.T) {
	b, _ := start(t)
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
	waiting(t, await(t.Context(), b, "a", holder(t, b, "a").Seen))

	lease = win(t, b, request("c", long))
	held := holder(t, b, "c").Seen
	release(t, lease, long)
	waiting(t, await(t.Context(), b, "c", holder(t, b, "c").Seen)) // and so the channel is subscribed
	woken(t, "kept before the subscription", await(t.Context(), b, "c", held))

	win(t, b, request("b", brief))
	gone := inspect(t, b, "b").Seen
	expire(t, b, "b")
	woken(t, "expired meanwhile", await(t.Context(), b, "b", gone))
}

// A release may come at any moment of the call: before the subscription, before the look, after it.
func TestBackend_AwaitRelease_MissesNoRelease_ConcurrentSafe(t *testing.T) {
	b, _ := start(t)
	for round := range 300 {
		key := "a"
		if round%3 == 0 {
			key = "fresh-" + strconv.Itoa(round) // whose channel is not subscribed
		}
		lease := win(t, b, request(key, long))
		wait := await(t.Context(), b, key, holder(t, b, key).Seen)
		time.Sleep(time.Duration(round%10) * 50 * time.Microsecond)
		release(t, lease, 0)
		woken(t, "round "+strconv.Itoa(round), wait)
	}
}

func TestBackend_AwaitRelease_SharesOneConnectionAndIdlesForFree(t *testing.T) {
	b, client := start(t)
	const names, each = 10, 100
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := runtime.NumGoroutine()
	var seen []string
	for i := range names {
		key := strconv.Itoa(i)
		win(t, b, request(key, long))
		seen = append(seen, holder(t, b, key).Seen)
	}
	var waits sync.WaitGroup
	for i := range names * each {
		waits.Go(func() {
			if err := b.AwaitRelease(ctx, strconv.Itoa(i%names), seen[i%names]); !errors.Is(err, context.Canceled) {
				t.Errorf("AwaitRelease: %v", err)
			}
		})
	}
	subscribed(t, client, names)
	settled := func() int64 { // when all have been compared with the record
		calls := scripts(t, client)
		time.Sleep(brief)
		return scripts(t, client) - calls
	}
	eventually(t, "the looks are done", func() bool { return settled() == 0 })
	if clients, channels := subscriptions(t, client); clients != 1 || channels != names {
		t.Errorf("%d connections with %d channels, want 1 with %d", clients, channels, names)
	}
	// The callers' own, the worker, the reader, and what the client and the runtime have.
	if own := runtime.NumGoroutine() - before - names*each; own > 20 {
		t.Errorf("%d goroutines beyond the callers'", own)
	}
	commands := number(t, info(t, client, "total_commands_processed"))
	time.Sleep(time.Second)
	if n := number(t, info(t, client, "total_commands_processed")) - commands; n > 5 {
		t.Errorf("%d commands in a second of waiting", n)
	}
	cancel()
	waits.Wait()
}

func TestBackend_AwaitRelease_CostsNoCommandOncePassed(t *testing.T) {
	server := testserver.Redis(t)
	holding, client := open(t, connect(t, server), nil), connect(t, server)
	b := open(t, connect(t, server), nil)
	lease := win(t, holding, request("a", long))
	wait := await(t.Context(), b, "a", holder(t, b, "a").Seen)
	subscribed(t, client, 1)
	waiting(t, wait)
	for round := range 5 {
		release(t, lease, 0)
		woken(t, "the hand-off", wait)
		lease = win(t, holding, request("a", long))
		seen := holder(t, b, "a").Seen
		before := scripts(t, client)
		wait = await(t.Context(), b, "a", seen)
		waiting(t, wait)
		if n := scripts(t, client) - before; n != 0 {
			t.Errorf("round %d: waiting cost %d scripts", round, n)
		}
	}
}

func TestBackend_AwaitRelease_EndsWithItsConnectionAndWorksAgain(t *testing.T) {
	b, client := start(t)
	lease := win(t, b, request("a", long))
	for range 3 {
		seen := holder(t, b, "a").Seen
		wait := await(t.Context(), b, "a", seen)
		subscribed(t, client, 1)
		waiting(t, wait)
		if err := client.Do(t.Context(), "client", "kill", "type", "pubsub").Err(); err != nil {
			t.Fatal(err)
		}
		kind(t, "AwaitRelease over a killed connection", result(t, "the end", wait), backend.Unavailable)
	}
	wait := await(t.Context(), b, "a", holder(t, b, "a").Seen)
	subscribed(t, client, 1)
	waiting(t, wait)
	release(t, lease, 0)
	woken(t, "the release", wait)
}

func TestBackend_AwaitRelease_EndsWithItsContextAndLeavesNobodyBehind(t *testing.T) {
	b, client := start(t)
	win(t, b, request("a", long))
	seen := holder(t, b, "a").Seen
	ctx, cancel := context.WithCancel(t.Context())
	first, second := await(ctx, b, "a", seen), await(t.Context(), b, "a", seen)
	subscribed(t, client, 1)
	cancel()
	if err := result(t, "the cancelled", first); !errors.Is(err, context.Canceled) {
		t.Errorf("AwaitRelease: %v", err)
	}
	waiting(t, second)
	if err := b.Abandon(t.Context(), request("a", long)); err != nil {
		t.Fatal(err)
	}
	waiting(t, second)
}

func TestBackend_Close_EndsWaitersAndGoroutines(t *testing.T) {
	server := testserver.Redis(t)
	client := connect(t, server)
	b := redisleader.New(connect(t, server), nil)
	lease := win(t, b, request("a", long))
	seen := holder(t, b, "a").Seen
	wait := await(t.Context(), b, "a", seen)
	subscribed(t, client, 1)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := result(t, "Close", wait); err == nil {
		t.Error("the waiter was told of a release")
	}
	if err := b.AwaitRelease(t.Context(), "a", seen); err == nil {
		t.Error("AwaitRelease works after Close")
	}
	eventually(t, "the connection is closed", func() bool { n, _ := subscriptions(t, client); return n == 0 })
	stacks := make([]byte, 1<<20)
	if text := string(stacks[:runtime.Stack(stacks, true)]); strings.Contains(text, "redisleader.(*notifier)") {
		t.Errorf("goroutines left:\n%s", text)
	}
	renew(t, lease, long)
	release(t, lease, 0)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
