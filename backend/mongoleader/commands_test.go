package mongoleader_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/mongoleader"
	"github.com/goleader/leader/internal/testserver"
)

// recorder notes the commands of a client.
type recorder struct {
	mu       sync.Mutex
	commands []bson.Raw
}

func (r *recorder) monitor() *options.ClientOptions {
	started := func(_ context.Context, e *event.CommandStartedEvent) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.commands = append(r.commands, append(bson.Raw(nil), e.Command...))
	}
	return options.Client().SetMonitor(&event.CommandMonitor{Started: started})
}

// take returns what was sent since the last call.
func (r *recorder) take() []bson.Raw {
	r.mu.Lock()
	defer r.mu.Unlock()
	commands := r.commands
	r.commands = nil
	return commands
}

// names are the names of commands.
func names(commands []bson.Raw) []string {
	var list []string
	for _, c := range commands {
		list = append(list, c.Index(0).Key())
	}
	return list
}

// recorded returns a backend on a new database, and what its client sends. The client asks for the worst of concerns and
// preferences.
func recorded(t testing.TB) (*mongoleader.Backend, *recorder) {
	t.Helper()
	server, r := testserver.Mongo(t), new(recorder)
	careless := options.Client().SetWriteConcern(writeconcern.Unacknowledged()).SetReadConcern(readconcern.Available()).
		SetReadPreference(readpref.SecondaryPreferred())
	return open(t, database(t, server, connect(t, server, r.monitor(), careless)), nil), r
}

func TestBackend_SendsOneCommandForEachOrdinaryCall(t *testing.T) {
	b, r := recorded(t)
	release(t, win(t, b, request("a", long)), 0)
	other := win(t, b, request("held", long))
	win(t, b, request("job#0", long))
	r.take()
	var lease backend.Lease
	for _, step := range []struct {
		what string
		call func()
		want []string
	}{
		{"TryAcquire", func() { lease = win(t, b, request("a", long)) }, []string{"findAndModify"}},
		{"Renew", func() { renew(t, lease, long) }, []string{"update"}},
		{"Inspect", func() { inspect(t, b, "a") }, []string{"aggregate"}},
		{"Release", func() { release(t, lease, 0) }, []string{"update"}},
		{"a losing TryAcquire", func() { holder(t, b, "held") }, []string{"findAndModify", "aggregate"}},
		{"Release with keep", func() { release(t, other, long) }, []string{"update"}},
		{"Abandon", func() { _ = b.Abandon(t.Context(), request("a", long)) }, []string{"update"}},
		{"a first TryAcquire", func() { win(t, b, request("new", long)) }, []string{
			"findAndModify", "aggregate", "hello", "isMaster", "update", "findAndModify",
		}},
	} {
		step.call()
		got := names(r.take())
		got = slices.DeleteFunc(got, func(name string) bool { return name == "isMaster" && !slices.Contains(step.want, name) })
		if step.what == "a first TryAcquire" && !slices.Contains(got, "isMaster") { // which only an old server is asked
			step.want = slices.DeleteFunc(step.want, func(name string) bool { return name == "isMaster" })
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("%s sends %q, want %q", step.what, got, step.want)
		}
	}
}

func TestBackend_TryAcquireSlot_TakesTwoRoundTrips(t *testing.T) {
	b, r := recorded(t)
	take := func() (int, error) {
		_, i, err := b.TryAcquireSlot(t.Context(), request("job", long), 2)
		return i, err
	}
	if _, err := take(); err != nil {
		t.Fatal(err)
	}
	r.take()
	if _, err := take(); err != nil {
		t.Fatal(err)
	}
	if got, want := names(r.take()), []string{"aggregate", "findAndModify"}; !slices.Equal(got, want) {
		t.Errorf("a free slot takes %q, want %q", got, want)
	}
	if _, err := take(); !errors.Is(err, backend.ErrHeld) {
		t.Fatal(err)
	}
	if got, want := names(r.take()), []string{"aggregate"}; !slices.Equal(got, want) {
		t.Errorf("a full group takes %q, want %q", got, want)
	}
}

// Whatever the user's client is configured for.
func TestBackend_WaitsForAMajorityExceptAtARelease(t *testing.T) {
	b, r := recorded(t)
	release(t, win(t, b, request("a", long)), 0)
	kept := win(t, b, request("kept", long))
	broken := win(t, b, request("broken", long))
	r.take()
	var lease backend.Lease
	for _, step := range []struct {
		what    string
		call    func()
		durable bool
	}{
		{"TryAcquire", func() { lease = win(t, b, request("a", long)) }, true},
		{"Renew", func() { renew(t, lease, long) }, true},
		{"a late Renew", func() { renew(t, lease, time.Second) }, true},
		{"Release", func() { release(t, lease, 0) }, false},
		{"Release with keep", func() { release(t, kept, long) }, true},
		{"Abandon", func() { _ = b.Abandon(t.Context(), request("a", long)) }, true},
		{"Break", func() { _ = b.Break(t.Context(), "broken", broken.Fence()) }, true},
		{"PutRecord", func() { _, _ = b.PutRecord(t.Context(), backend.Record{Key: "a!b/c"}) }, true},
		{"DeleteRecord", func() { _ = b.DeleteRecord(t.Context(), backend.Record{Key: "a!b/c"}) }, true},
	} {
		step.call()
		writes := 0
		for _, c := range r.take() {
			if c.Index(0).Key() == "aggregate" {
				if level, _ := c.Lookup("readConcern", "level").StringValueOK(); level != "local" {
					t.Errorf("%s reads with %v", step.what, c.Lookup("readConcern"))
				}
				continue
			}
			writes++
			concern := c.Lookup("writeConcern")
			w, _ := c.Lookup("writeConcern", "w").StringValueOK()
			j, _ := c.Lookup("writeConcern", "j").BooleanOK()
			if durable := w == "majority" && j; durable != step.durable {
				t.Errorf("%s writes with %v, want durable: %t", step.what, concern, step.durable)
			}
			if n, ok := c.Lookup("writeConcern", "w").AsInt64OK(); !step.durable && (!ok || n != 1) {
				t.Errorf("%s writes with %v, want that the primary confirms", step.what, concern)
			}
		}
		if writes == 0 {
			t.Errorf("%s writes nothing", step.what)
		}
	}
}

// What a client never sends cannot matter: an hour more or less on its clock is an hour that nobody sees. The one instant
// is the server's own, for the creation of a document.
func TestBackend_SendsNoInstantOfTheClient(t *testing.T) {
	b, r := recorded(t)
	release(t, win(t, b, request("a", long)), 0)
	if _, err := b.PutRecord(t.Context(), backend.Record{Key: "a!b/c", TTL: long}); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.take() {
		_, created := c.LookupErr("updates", "0", "u", "$setOnInsert", "renewedAt")
		if dates(c) > 0 && created != nil {
			t.Errorf("sent an instant: %v", c)
		}
	}
	lease := win(t, b, request("a", long))
	renew(t, lease, 2*long)
	renew(t, lease, long)
	inspect(t, b, "a")
	holder(t, b, "a")
	release(t, lease, long)
	release(t, lease, 0)
	broken := win(t, b, request("a", long))
	if err := b.Break(t.Context(), "a", broken.Fence()); err != nil {
		t.Fatal(err)
	}
	if err := b.Abandon(t.Context(), request("a", long)); err != nil {
		t.Fatal(err)
	}
	for _, err := range b.List(t.Context(), "", true) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := b.GetRecords(t.Context(), "a!b/"); err != nil {
		t.Fatal(err)
	}
	commands := r.take()
	if len(commands) < 10 {
		t.Fatalf("only %d commands were recorded", len(commands))
	}
	for _, c := range commands {
		if dates(c) > 0 {
			t.Errorf("sent an instant: %v", c)
		}
	}
}

// dates counts the instants in a document.
func dates(raw bson.Raw) int {
	n := 0
	elements, _ := raw.Elements()
	for _, e := range elements {
		v := e.Value()
		if inner, ok := v.DocumentOK(); ok {
			n += dates(inner)
		}
		if inner, ok := v.ArrayOK(); ok {
			n += dates(bson.Raw(inner))
		}
		if v.Type == bson.TypeDateTime { // a Timestamp is what a replica set made the driver repeat
			n++
		}
	}
	return n
}

func TestBackend_TryAcquire_SendsNothingWhenItsContextIsOver(t *testing.T) {
	b, r := recorded(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"TryAcquire":     func() error { _, err := b.TryAcquire(ctx, request("a", long)); return err },
		"TryAcquireSlot": func() error { _, _, err := b.TryAcquireSlot(ctx, request("a", long), 3); return err },
		"Abandon":        func() error { return b.Abandon(ctx, request("a", long)) },
		"Inspect":        func() error { _, err := b.Inspect(ctx, "a"); return err },
		"AwaitRelease":   func() error { return b.AwaitRelease(ctx, "a", "1") },
		"Break":          func() error { return b.Break(ctx, "a", 1) },
		"Migrate":        func() error { return b.Migrate(ctx) },
		"Advise":         func() error { _, err := b.Advise(ctx); return err },
		"PutRecord":      func() error { _, err := b.PutRecord(ctx, backend.Record{Key: "a!b/c"}); return err },
		"DeleteRecord":   func() error { return b.DeleteRecord(ctx, backend.Record{Key: "a!b/c"}) },
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := r.take(); len(got) > 0 {
		t.Errorf("sent %q", names(got))
	}
}
