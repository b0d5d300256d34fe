package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/mongoleader"
	"github.com/goleader/leader/examples/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

// watchdog is how long a test waits for what must happen in seconds.
const watchdog = time.Minute

func TestWebhookPoller_TheLeaderIsKilled_AnotherDeliversTheRest(t *testing.T) {
	const count, holdAfter = 60, 15
	server := testserver.Mongo(t)
	q := newQueue(t, server.URL())
	to := newHolder(t, holdAfter)
	q.enqueue(t, to.url, count)
	program := exampletest.Build(t)
	processes := make(map[string]*exampletest.Process)
	for _, id := range []string{"a", "b", "c"} {
		processes[id] = exampletest.Start(t, program, "-mongo", server.URL(), "-database", q.webhooks.Database().Name(),
			"-node", id, "-lives", "2m")
	}

	// The leader dies with as many webhooks on their way as it has senders.
	held := to.awaitHeld(t)
	dead := q.find(t, held[0])
	processes[dead.Node].Kill(t)
	to.release()

	all := q.awaitDelivered(t, count)
	terms := 0
	for id, p := range processes {
		terms += strings.Count(p.Output(), "leads, fence")
		if id != dead.Node {
			continue
		}
		if n := strings.Count(p.Output(), "leads, fence"); n == 0 {
			t.Error("the process that was killed did not lead")
		}
	}
	received := to.counts()
	check(t, all, received, held, terms)
	for _, id := range held {
		if w := q.find(t, id); w.Node == dead.Node || w.Fence <= dead.Fence {
			t.Errorf("%s was claimed by %s with fence %d, after %s had it with %d", id, w.Node, w.Fence, dead.Node, dead.Fence)
		}
	}
	if n := len(to.receiver.seen); n != count {
		t.Errorf("the receiver accepted %d webhooks, want %d", n, count)
	}
}

// check fails unless each webhook came at least once, those that were on their way came again, and no other one did.
func check(t *testing.T, all []webhook, received map[string]int, held []string, terms int) {
	t.Helper()
	for _, w := range all {
		if n := received[w.ID]; n < 1 || n > w.Claims {
			t.Errorf("%s came %d times, and was claimed %d times", w.ID, n, w.Claims)
		}
	}
	for _, id := range held {
		if received[id] < 2 {
			t.Errorf("%s was on its way when the leader died, and came %d times", id, received[id])
		}
	}
	twice := 0
	for _, n := range received {
		if n > 1 {
			twice++
		}
	}
	t.Logf("%d webhooks in %d terms; %d came twice, %d were on their way at the death", len(all), terms, twice, len(held))
	// A machine that stalls for longer than the lease makes more terms, and each may repeat what was on its way.
	if most := senders * (terms - 1); twice > most {
		t.Errorf("%d webhooks came more than once in %d terms, want at most %d", twice, terms, most)
	}
}

func TestQueue_AFormerLeader_NeitherClaimsNorFinishesWhatALaterOneHas(t *testing.T) {
	q := newQueue(t, testserver.Mongo(t).URL())
	b := mongoleader.New(q.webhooks.Database(), nil)
	defer b.Close()
	elector, err := leader.New(b)
	if err != nil {
		t.Fatal(err)
	}
	var terms []*leader.Lease
	for range 2 {
		l, err := elector.Acquire(t.Context(), "test", leader.WithWaitTime(watchdog)) // it tries again
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		terms = append(terms, l)
	}
	former, later := terms[0], terms[1]

	q.enqueue(t, "http://127.0.0.1:1", 1)
	for i, step := range []struct {
		held  *leader.Lease
		found bool
	}{{former, true}, {former, false}, {later, true}, {later, false}, {former, false}} {
		if w, found, err := q.claim(t.Context(), step.held); found != step.found || err != nil {
			t.Errorf("claim %d: %+v, found %v, %v; want %v", i, w, found, err, step.found)
		}
	}
	w := q.find(t, id(0))
	if err := q.finish(t.Context(), former, w, nil); !errors.Is(err, errStale) {
		t.Errorf("the former leader finished it: %v, want %v", err, errStale)
	}
	if err := q.finish(t.Context(), later, w, errors.New("no answer")); err != nil {
		t.Errorf("the later leader could not put it back: %v", err)
	}
	// It is pending, and still the later leader's.
	if _, found, err := q.claim(t.Context(), former); found || err != nil {
		t.Errorf("the former leader claimed what was put back: %v, %v", found, err)
	}
}

// testQueue is a queue in a database of its own.
type testQueue struct{ queue }

func newQueue(t *testing.T, url string) testQueue {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(url))
	if err != nil {
		t.Fatal(err)
	}
	database := client.Database(fmt.Sprintf("webhooks-%d", time.Now().UnixNano())) // the server may be one that lives on
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(database.Drop(ctx), client.Disconnect(ctx)); err != nil {
			t.Error(err)
		}
	})
	return testQueue{queue{database.Collection("webhooks")}}
}

func id(i int) string { return fmt.Sprintf("webhook-%03d", i) }

func (q testQueue) enqueue(t *testing.T, url string, count int) {
	t.Helper()
	for i := range count {
		if _, err := q.webhooks.InsertOne(t.Context(), webhook{ID: id(i), URL: url, Body: "{}", Status: pending}); err != nil {
			t.Fatal(err)
		}
	}
}

func (q testQueue) find(t *testing.T, id string) (w webhook) {
	t.Helper()
	if err := q.webhooks.FindOne(t.Context(), bson.D{{Key: "_id", Value: id}}).Decode(&w); err != nil {
		t.Fatal(err)
	}
	return w
}

// awaitDelivered waits until that many webhooks are delivered, and returns them.
func (q testQueue) awaitDelivered(t *testing.T, count int) (all []webhook) {
	t.Helper()
	for end := time.Now().Add(watchdog); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		cursor, err := q.webhooks.Find(t.Context(), bson.D{{Key: "status", Value: delivered}})
		if err != nil {
			t.Fatal(err)
		}
		if err := cursor.All(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		if len(all) >= count {
			return all
		}
	}
	t.Fatalf("%d webhooks were delivered, want %d", len(all), count)
	return nil
}

// holder is a receiver that stops answering after some webhooks, until it is released.
type holder struct {
	receiver *receiver
	url      string

	mu       sync.Mutex
	answers  int // before it holds
	received map[string]int
	held     []string
	released chan struct{}
}

func newHolder(t *testing.T, answers int) *holder {
	t.Helper()
	h := &holder{
		receiver: &receiver{seen: make(map[string]bool)}, answers: answers, received: make(map[string]int),
		released: make(chan struct{}),
	}
	server := httptest.NewServer(h)
	h.url = server.URL
	t.Cleanup(server.CloseClientConnections)
	return h
}

func (h *holder) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	if id := request.Header.Get(header); h.note(id) {
		<-h.released
	}
	h.receiver.ServeHTTP(answer, request)
}

// note counts a webhook, and reports whether it is to be held.
func (h *holder) note(id string) (hold bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.received[id]++
	h.answers--
	if h.answers < 0 {
		h.held = append(h.held, id)
	}
	return h.answers < 0
}

// awaitHeld waits until all senders of a leader wait for an answer, and returns what they sent.
func (h *holder) awaitHeld(t *testing.T) []string {
	t.Helper()
	for end := time.Now().Add(watchdog); time.Now().Before(end); time.Sleep(time.Millisecond) {
		h.mu.Lock()
		held := h.held
		h.mu.Unlock()
		if len(held) >= senders {
			return held[:senders]
		}
	}
	t.Fatal("nothing was sent")
	return nil
}

// release answers those that were held, and all that come.
func (h *holder) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers = 1 << 30
	close(h.released)
}

func (h *holder) counts() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.received)
}
