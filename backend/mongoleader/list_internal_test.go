package mongoleader

import (
	"context"
	"crypto/rand"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/internal/testserver"
)

// Not with the cursor of List, because the stand-in answers an aggregate at once, whatever its size.
func TestCloseCursor_GivesUpOnAFrozenConnection(t *testing.T) {
	server := testserver.Mongo(t)
	proxy, err := netfault.Listen(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	client, err := mongo.Connect(options.Client().ApplyURI(server.URL()).SetHosts([]string{proxy.Addr()}).SetDirect(true))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	c := client.Database("leader-" + rand.Text()).Collection("c")
	if _, err := c.InsertMany(t.Context(), []any{doc("_id", 1), doc("_id", 2), doc("_id", 3)}); err != nil {
		t.Fatal(err)
	}
	cursor, err := c.Find(t.Context(), doc(), options.Find().SetBatchSize(1))
	if err != nil {
		t.Fatal(err)
	}
	if cursor.ID() == 0 {
		t.Fatal("the server has no cursor")
	}
	proxy.Freeze()
	defer proxy.Thaw()
	closed := make(chan error, 1)
	go func() {
		closeCursor(t.Context(), cursor)
		closed <- nil
	}()
	if err := received(t, "the cursor is closed", closed); err != nil {
		t.Error(err)
	}
}
