package redisleader

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/testserver"
)

const patience = 20 * time.Second

// sweeping returns a backend that looks for unused topics all the time.
func sweeping(t *testing.T) (*Backend, *redis.Client) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: testserver.Redis(t).Addr()})
	t.Cleanup(func() { _ = client.Close() })
	b := New(client, nil)
	b.notices.sweep = 2 * time.Millisecond
	t.Cleanup(func() { _ = b.Close() })
	return b, client
}

func channels(t *testing.T, client *redis.Client) int {
	t.Helper()
	list, err := client.PubSubChannels(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func connections(t *testing.T, client *redis.Client) int {
	t.Helper()
	list, err := client.Do(t.Context(), "client", "list", "type", "pubsub").Text()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(list, "\n")
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}

func hold(t *testing.T, b *Backend, key string) (lease backend.Lease, seen string) {
	t.Helper()
	lease, err := b.TryAcquire(t.Context(), backend.Request{Key: key, Token: "token of " + key, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	h, err := b.Inspect(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return lease, h.Seen
}

func TestNotifier_UnsubscribesWhatNobodyWaitsForAndEndsWhenNothingIsLeft(t *testing.T) {
	b, client := sweeping(t)
	_, first := hold(t, b, "first")
	lease, second := hold(t, b, "second")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 2)
	go func() { ended <- b.AwaitRelease(ctx, "first", first) }()
	go func() { ended <- b.AwaitRelease(t.Context(), "second", second) }()
	eventually(t, "both are subscribed", func() bool { return channels(t, client) == 2 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the waiter that gave up: %v", err)
	}
	eventually(t, "one is unsubscribed", func() bool { return channels(t, client) == 1 })
	if err := lease.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the other waiter: %v", err)
	}
	eventually(t, "the connection is closed", func() bool { return connections(t, client) == 0 })
	finished := make(chan struct{})
	go func() { b.notices.running.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(patience):
		t.Fatal("the goroutines go on")
	}
}

func TestNotifier_ForgetsWaitersThatGaveUpBeforeTheyWereServed(t *testing.T) {
	b, client := sweeping(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 100 {
		_, seen := hold(t, b, rounds(i)) // A free key would end the wait as well.
		if err := b.notices.await(ctx, b.recordKey(rounds(i)), seen); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	eventually(t, "nothing is left", func() bool {
		b.notices.mu.Lock()
		defer b.notices.mu.Unlock()
		return len(b.notices.topics) == 0 && b.notices.stop == nil
	})
	eventually(t, "the connection is closed", func() bool { return connections(t, client) == 0 })
}

// Waiters come and go while their topic is being unsubscribed.
func TestNotifier_MissesNothingWhileItUnsubscribes_ConcurrentSafe(t *testing.T) {
	b, _ := sweeping(t)
	for round := range 200 {
		lease, err := b.TryAcquire(t.Context(), backend.Request{Key: "a", Token: rounds(round), TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		h, err := b.Inspect(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		// About the time after which an unused topic is unsubscribed.
		time.Sleep(time.Duration(round%16) * 700 * time.Microsecond)
		ended := make(chan error, 1)
		go func() { ended <- b.AwaitRelease(t.Context(), "a", h.Seen) }()
		time.Sleep(time.Duration(round%5) * 200 * time.Microsecond)
		if err := lease.Release(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		case <-time.After(patience):
			t.Fatalf("round %d: the release was missed", round)
		}
	}
}

func rounds(i int) string { return "token-" + strings.Repeat("x", i) }

func TestTopic_Covers_OnlyWhatCannotHaveBeenMissed(t *testing.T) {
	b := &topic{waiters: map[*waiter]struct{}{}}
	b.confirm()
	for _, step := range []struct {
		do   func()
		seen string
		want bool
	}{
		{func() {}, "10", false},              // it may have been released before the subscription
		{func() { b.tell(10) }, "10", false},  // it has been released
		{func() {}, "11", true},               // it came after a release that was told
		{func() {}, seen(11, true), false},    // nothing is told of the end of a kept key
		{func() {}, "", false},                // nothing was seen
		{func() { b.tell(12) }, "11", false},  // a later one was released, so this one is over
		{func() { b.tell(0) }, "13", true},    // a stranger's message
		{func() { b.confirm() }, "13", false}, // the connection was interrupted
		{func() { b.state = 0 }, "14", false}, // not subscribed
	} {
		if step.do(); b.covers(step.seen) != step.want {
			t.Errorf("seen %q with %+v: covered %v, want %v", step.seen, b, !step.want, step.want)
		}
	}
}
