package mongoleader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/mongoleader"
	"github.com/goleader/leader/internal/testserver"
)

func TestBackend_Check_ReportsEveryBadArgument(t *testing.T) {
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(t.Context()) //nolint:errcheck // never connected
	db := client.Database("x")
	for name, test := range map[string]struct {
		db         *mongo.Database
		collection string
		want       []string
	}{
		"nothing":     {db: db},
		"a name":      {db: db, collection: "My-leases_2.a"},
		"nil":         {want: []string{"database is nil"}},
		"dollar":      {db: db, collection: "a$b", want: []string{`"a$b"`}},
		"NUL":         {db: db, collection: "a\x00b", want: []string{`"a\x00b"`}},
		"not ASCII":   {db: db, collection: "leasés", want: []string{"leasés"}},
		"of a system": {db: db, collection: "system.leases", want: []string{"system.leases"}},
		"dot":         {db: db, collection: ".leases", want: []string{".leases"}},
		"long":        {db: db, collection: strings.Repeat("a", 65), want: []string{"65"}},
		"several":     {collection: "$", want: []string{"nil", `"$"`}},
	} {
		t.Run(name, func(t *testing.T) {
			b := mongoleader.New(test.db, &mongoleader.Options{Collection: test.collection})
			err := b.Check()
			if (err != nil) != (len(test.want) > 0) {
				t.Fatalf("Check: %v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Check: %v, want it to name %q", err, want)
				}
			}
			if err == nil {
				return
			}
			kind(t, "Check", err, backend.Misconfigured)
			if _, again := b.TryAcquire(t.Context(), request("a", time.Minute)); !errors.Is(again, err) {
				t.Errorf("TryAcquire: %v, want the error of Check", again)
			}
			if err := b.AwaitRelease(t.Context(), "a", "1"); !errors.Is(err, b.Check()) {
				t.Errorf("AwaitRelease: %v, want the error of Check", err)
			}
			if _, err := leader.New(b); !errors.Is(err, b.Check()) {
				t.Errorf("leader.New: %v, want the error of Check", err)
			}
		})
	}
}

func TestBackend_TryAcquire_TellsTheHolderAndWritesNothing(t *testing.T) {
	b, leases := start(t)
	req := request("nightly", time.Minute)
	req.Metadata = map[string]string{"zone": "a", "quote": `"{`, "a.b": "$c", "": "none"}
	lease := win(t, b, req)
	before := stored(t, leases, "nightly")
	for range 100 {
		h := holder(t, b, "nightly")
		if h.Owner != "node-1" || h.Fence != lease.Fence() || h.Kept || h.Seen == "" || len(h.Metadata) != 4 {
			t.Fatalf("holder %+v", h)
		}
		if h.Remaining <= 0 || h.Remaining > time.Minute+time.Millisecond {
			t.Fatalf("remaining %v", h.Remaining)
		}
	}
	if after := stored(t, leases, "nightly"); !bytes.Equal(before, after) {
		t.Errorf("a losing attempt changed the document from %v to %v", before, after)
	}
}

func TestBackend_ManyClientsCreateADocumentAtOnce(t *testing.T) {
	server := testserver.Mongo(t)
	const clients, rounds = 8, 40
	db := database(t, server, connect(t, server))
	backends := make([]*mongoleader.Backend, clients)
	for i := range backends {
		backends[i] = open(t, connect(t, server).Database(db.Name()), nil)
	}
	for round := range rounds {
		key := fmt.Sprintf("job-%d", round)
		var together sync.WaitGroup
		wins := make(chan backend.Lease, clients)
		for _, b := range backends {
			together.Go(func() {
				lease, err := b.TryAcquire(t.Context(), request(key, long))
				switch {
				case err == nil:
					wins <- lease
				case !errors.Is(err, backend.ErrHeld):
					t.Errorf("TryAcquire: %v, want success or ErrHeld", err)
				}
			})
		}
		together.Wait()
		if len(wins) != 1 {
			t.Fatalf("round %d: %d clients won, want 1", round, len(wins))
		}
	}
}

// A fence begins at the server's clock in µs, so that it grows over a deletion.
func TestBackend_Fence_BeginsAtTheServersClock(t *testing.T) {
	b, leases := start(t)
	var last uint64
	for range 10 {
		lease := win(t, b, request("a", long))
		at := stored(t, leases, "a").Lookup("since").Time()
		if off := time.UnixMicro(int64(lease.Fence())).Sub(at); off < -patience || off > patience {
			t.Fatalf("fence %d at %v of the server", lease.Fence(), at)
		}
		if lease.Fence() <= last {
			t.Fatalf("fence %d after %d", lease.Fence(), last)
		}
		last = lease.Fence()
		time.Sleep(2 * time.Millisecond) // The server's clock shows whole ms.
		if _, err := leases.DeleteOne(t.Context(), doc("_id", "a")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBackend_Release_KeepsUnknownFields(t *testing.T) {
	b, leases := start(t)
	lease := win(t, b, request("a", long))
	if _, err := leases.UpdateOne(t.Context(), doc("_id", "a"), doc("$set", doc("later", "field"))); err != nil {
		t.Fatal(err)
	}
	renew(t, lease, long)
	release(t, lease, 0)
	win(t, b, request("a", long))
	if got, _ := stored(t, leases, "a").Lookup("later").StringValueOK(); got != "field" {
		t.Errorf("the field of a later release is %q", got)
	}
}

const shortLease = 2 * time.Second

// elect acquires a lease with package leader.
func elect(t testing.TB, b backend.Driver) *leader.Lease {
	t.Helper()
	e, err := leader.New(b, leader.WithLeaseTime(shortLease), leader.WithWaitTime(patience))
	if err != nil {
		t.Fatal(err)
	}
	l, err := e.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// lost waits for the end of a lease, which must come within a lease time of began.
func lost(t testing.TB, l *leader.Lease, began time.Time) {
	t.Helper()
	select {
	case <-l.Context().Done():
	case <-time.After(patience):
		t.Fatal("the lease is still trusted")
	}
	if took := time.Since(began); took > shortLease+time.Second {
		t.Errorf("it took %v", took)
	}
	if cause := context.Cause(l.Context()); !errors.Is(cause, leader.ErrLeaseLost) {
		t.Errorf("the cause is %v", cause)
	}
}

func TestBackend_ALeaderWhoseDocumentIsDeletedLosesInTime(t *testing.T) {
	b, leases := start(t)
	l := elect(t, b)
	began := time.Now()
	if _, err := leases.DeleteOne(t.Context(), doc("_id", "job")); err != nil {
		t.Fatal(err)
	}
	lost(t, l, began)
	if next := win(t, b, request("job", long)); next.Fence() <= l.Info().Fence {
		t.Errorf("fence %d after %d", next.Fence(), l.Info().Fence)
	}
}

func TestBackend_ALeaderIsToldOfADroppedCollection(t *testing.T) {
	b, leases := start(t)
	l := elect(t, b)
	began := time.Now()
	if err := leases.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost(t, l, began)
	if next := win(t, b, request("job", long)); next.Fence() <= l.Info().Fence {
		t.Errorf("fence %d after %d", next.Fence(), l.Info().Fence)
	}
}

func TestBackend_AStolenLeaseIsNoticedAtTheNextRenewal(t *testing.T) {
	b, leases := start(t)
	l := elect(t, b)
	began := time.Now()
	_, err := leases.UpdateOne(t.Context(), doc("_id", "job"), doc("$set", doc("token", "of a thief")))
	if err != nil {
		t.Fatal(err)
	}
	lost(t, l, began)
}

func TestBackend_TwoCollectionsDoNotMeet(t *testing.T) {
	server := testserver.Mongo(t)
	db := database(t, server, connect(t, server))
	win(t, open(t, db, nil), request("a", long))
	win(t, open(t, db, &mongoleader.Options{Collection: "other"}), request("a", long))
	win(t, open(t, database(t, server, db.Client()), nil), request("a", long))
}

// Options of the user's client for its own documents must not change ours.
func TestBackend_DoesNotFollowTheBSONOptionsOfTheClient(t *testing.T) {
	server := testserver.Mongo(t)
	odd := options.Client().SetBSONOptions(&options.BSONOptions{
		StringifyMapKeysWithFmt: true, IntMinSize: true, NilSliceAsEmpty: true, OmitEmpty: true, OmitZeroStruct: true,
	})
	b := open(t, database(t, server, connect(t, server, odd)), nil)
	lease := win(t, b, request("a", long))
	renew(t, lease, 2*long)
	if h := inspect(t, b, "a"); h.Fence != lease.Fence() {
		t.Errorf("holder %+v", h)
	}
	release(t, lease, 0)
}
