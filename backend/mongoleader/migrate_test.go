package mongoleader_test

import (
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/mongoleader"
	"github.com/goleader/leader/internal/testserver"
)

func TestBackend_Migrate_MayBeRepeated(t *testing.T) {
	server := testserver.Mongo(t)
	db := database(t, server, connect(t, server))
	for range 2 {
		if err := open(t, db, nil).Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	collections, err := db.ListCollectionNames(t.Context(), doc())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(collections)
	if want := []string{"leader", "leader_records"}; !slices.Equal(collections, want) {
		t.Errorf("collections %q, want %q", collections, want)
	}
	lease := win(t, open(t, db, nil), request("a", long))
	if err := open(t, db, nil).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	renew(t, lease, long)
}

func TestBackend_TryAcquireSlot_NeedsNoMigration(t *testing.T) {
	b, leases := start(t)
	lease, slot, err := b.TryAcquireSlot(t.Context(), request("job", long), 3)
	if err != nil {
		t.Fatal(err)
	}
	// Two slots of one token would be one holder too many.
	document := stored(t, leases, "job#"+string(rune('0'+slot)))
	token := document.Lookup("token").StringValue()
	_, err = leases.InsertOne(t.Context(), doc("_id", "job#7", "slotToken", token))
	if !mongo.IsDuplicateKeyError(err) {
		t.Errorf("a second slot with the token: %v, want a duplicate key", err)
	}
	release(t, lease, 0)
	if _, err := leases.InsertOne(t.Context(), doc("_id", "job#7", "slotToken", token)); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

func TestBackend_TryAcquireSlot_MakesTheIndexAgainAfterTheCollectionWasDropped(t *testing.T) {
	b, leases := start(t)
	for range 2 {
		lease, slot, err := b.TryAcquireSlot(t.Context(), request("job", long), 3)
		if err != nil {
			t.Fatal(err)
		}
		token := stored(t, leases, backend.SlotKey("job", slot)).Lookup("token").StringValue()
		_, err = leases.InsertOne(t.Context(), doc("_id", "job#7", "slotToken", token))
		if !mongo.IsDuplicateKeyError(err) {
			t.Errorf("a second slot with the token: %v, want a duplicate key", err)
		}
		release(t, lease, 0)
		if err := leases.Drop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBackend_Advise_WarnsOfAStandalone(t *testing.T) {
	server := owned(t)
	b := mongoleader.New(connect(t, server).Database("x"), nil)
	warnings, err := b.Advise(t.Context())
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "standalone") {
		t.Errorf("Advise: %q, %v", warnings, err)
	}
}
