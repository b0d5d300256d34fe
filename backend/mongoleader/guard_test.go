package mongoleader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/mongoleader"
	"github.com/goleader/leader/internal/testserver"
)

func TestBackend_Guard_WantsATransaction(t *testing.T) {
	b, _ := start(t)
	l := elect(t, b)
	kind(t, "Guard", b.Guard(t.Context(), l), backend.Misconfigured)
}

// write sets the total of a report as the leader with this lease.
func write(t testing.TB, reports *mongo.Collection, l *leader.Lease, total int) (bool, error) {
	t.Helper()
	filter := mongoleader.Fenced(l, "fence", doc("_id", "report"))
	update := doc("$set", doc("total", total, "fence", mongoleader.Fence(l)))
	result, err := reports.UpdateOne(t.Context(), filter, update, options.UpdateOne().SetUpsert(true))
	return err == nil && result.MatchedCount+result.UpsertedCount == 1, err
}

func TestFenced_RefusesAFormerLeader(t *testing.T) {
	server := testserver.Mongo(t)
	db := database(t, server, connect(t, server))
	b, reports := open(t, db, nil), db.Collection("reports")
	former := elect(t, b)
	for total := range 3 { // creates it, and changes it
		if ok, err := write(t, reports, former, total); !ok {
			t.Fatalf("write %d of the leader: %v", total, err)
		}
	}
	if err := b.Break(t.Context(), former.Info().Key, former.Info().Fence); err != nil {
		t.Fatal(err)
	}
	if ok, err := write(t, reports, former, 4); !ok {
		t.Errorf("a write before the next leader's: %v, want that it passes, for only Guard notices", err)
	}
	next := elect(t, b)
	if ok, err := write(t, reports, next, 5); !ok {
		t.Fatalf("write of the next leader: %v", err)
	}
	if ok, err := write(t, reports, former, 6); ok || !mongo.IsDuplicateKeyError(err) {
		t.Errorf("a late write of the former leader: %t, %v, want a duplicate key", ok, err)
	}
	late := mongoleader.Fenced(former, "fence", doc("_id", "report"))
	result, err := reports.UpdateOne(t.Context(), late, doc("$set", doc("total", 7)))
	if err != nil || result.MatchedCount != 0 {
		t.Errorf("without an upsert: %+v, %v, want no match", result, err)
	}
	raw, err := reports.FindOne(t.Context(), doc("_id", "report")).Raw()
	if err != nil || raw.Lookup("total").AsInt64() != 5 {
		t.Errorf("the report is %v, %v", raw, err)
	}
}

func TestFenced_LeavesTheFilterAsItWas(t *testing.T) {
	b, _ := start(t)
	l := elect(t, b)
	filter := append(make(bson.D, 0, 4), bson.E{Key: "_id", Value: "a"})
	one, two := mongoleader.Fenced(l, "one", filter), mongoleader.Fenced(l, "two", filter)
	if len(filter) != 1 || one[1].Key != "one" || two[1].Key != "two" {
		t.Errorf("%v became %v and %v", filter, one, two)
	}
}

// The server under test knows no sessions: a request that took one along would fail.
func TestBackend_StaysOutOfTheTransactionOfItsCaller(t *testing.T) {
	server := testserver.Mongo(t)
	db := database(t, server, connect(t, server))
	b := open(t, db, nil)
	session, err := db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(t.Context())
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	ctx := mongo.NewSessionContext(t.Context(), session)
	if _, err := db.Collection("notes").InsertOne(ctx, doc("a", 1)); err == nil && server.Owned() {
		t.Fatal("the session has no effect here")
	}
	lease, err := b.TryAcquire(ctx, request("a", long))
	if err != nil {
		t.Fatal(err)
	}
	_, _, slotErr := b.TryAcquireSlot(ctx, request("job", long), 2)
	_, putErr := b.PutRecord(ctx, backend.Record{Key: "a!b/c", TTL: time.Nanosecond})
	time.Sleep(5 * time.Millisecond) // the end of the record
	_, _, getErr := b.GetRecords(ctx, "a!b/")
	_, adviseErr := b.Advise(ctx)
	_, inspectErr := b.Inspect(ctx, "a")
	var listErr error
	for _, err := range b.List(ctx, "", true) {
		listErr = errors.Join(listErr, err)
	}
	for what, err := range map[string]error{
		"Renew": lease.Renew(ctx, long), "Inspect": inspectErr, "TryAcquireSlot": slotErr, "PutRecord": putErr,
		"GetRecords": getErr, "DeleteRecord": b.DeleteRecord(ctx, backend.Record{Key: "a!b/c"}), "List": listErr,
		"Advise": adviseErr, "Migrate": b.Migrate(ctx), "Abandon": b.Abandon(ctx, request("b", long)),
		"Break": b.Break(ctx, "a", lease.Fence()), "Release": lease.Release(ctx, 0),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	_ = session.AbortTransaction(t.Context())
	if h := inspect(t, b, "a"); !h.Free() {
		t.Errorf("after the transaction: %+v", h)
	}
}

// transactional returns a database of a replica set.
func transactional(t testing.TB) *mongo.Database {
	t.Helper()
	server := testserver.Mongo(t)
	db := database(t, server, connect(t, server))
	if server.Owned() || !hasChangeStreams(t, server, db.Client()) {
		t.Skip("this needs a replica set, see " + testserver.MongoURLEnv)
	}
	return db
}

// guarded writes a note under a lease in a transaction; between runs before the guard.
func guarded(t testing.TB, b *mongoleader.Backend, notes *mongo.Collection, l *leader.Lease, between func()) error {
	t.Helper()
	session, err := notes.Database().Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(t.Context())
	_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		if _, err := notes.InsertOne(ctx, doc("fence", mongoleader.Fence(l))); err != nil {
			return nil, err
		}
		between()
		return nil, b.Guard(ctx, l)
	})
	return err
}

func TestBackend_Guard_CommitsUnderTheLeaseAlone(t *testing.T) {
	db := transactional(t)
	b, notes := open(t, db, nil), db.Collection("notes")
	if err := errors.Join(db.CreateCollection(t.Context(), "notes"), b.Migrate(t.Context())); err != nil {
		t.Fatal(err)
	}
	l := elect(t, b)
	if err := guarded(t, b, notes, l, func() {}); err != nil {
		t.Fatalf("under the lease: %v", err)
	}
	takeOver := func() {
		if err := b.Break(t.Context(), l.Info().Key, l.Info().Fence); err == nil {
			win(t, b, request(l.Info().Key, long))
		}
	}
	if err := guarded(t, b, notes, l, takeOver); !errors.Is(err, leader.ErrLeaseLost) {
		t.Errorf("after a take-over within the transaction: %v, want ErrLeaseLost", err)
	}
	if n, err := notes.CountDocuments(t.Context(), doc()); err != nil || n != 1 {
		t.Errorf("%d notes were committed, %v, want 1", n, err)
	}
}

func TestBackend_Guard_HoldsUpATakeOverUntilTheCommit(t *testing.T) {
	db := transactional(t)
	b := open(t, db, nil)
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := elect(t, b)
	session, err := db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(t.Context())
	broken := make(chan error, 1)
	_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		if err := b.Guard(ctx, l); err != nil {
			return nil, err
		}
		go func() { broken <- b.Break(t.Context(), l.Info().Key, l.Info().Fence) }()
		select {
		case err := <-broken:
			t.Errorf("Break within the guarded transaction: %v, want that it waits", err)
		case <-time.After(brief):
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-broken; err != nil {
		t.Errorf("Break after the commit: %v", err)
	}
}
