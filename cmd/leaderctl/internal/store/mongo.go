package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"

	"github.com/goleader/leader/backend/mongoleader"
)

const mongoRights = "find, insert, update, remove, createIndex, createCollection, listCollections and changeStream on the " +
	"database: the role readWrite has them"

// openMongo opens a database, "leader" unless the URL names one.
func openMongo(ctx context.Context, l *Location, _ Options) (*Store, error) {
	own := &mongoleader.Options{Collection: l.Own("collection")}
	records := &mongoleader.HistoryOptions{Collection: l.Own("history_collection")}
	database := cmp.Or(l.Path, "leader")
	if err := checkMongoOptions(l); err != nil {
		return nil, err
	}
	client, err := mongo.Connect(options.Client().ApplyURI(l.URL()))
	if err != nil {
		return nil, err
	}
	db := client.Database(database)
	b := mongoleader.New(db, own)
	s := &Store{Driver: b, Migrate: b.Migrate, Rights: mongoRights}
	s.closes(func() error { return client.Disconnect(context.WithoutCancel(ctx)) }) // Close bounds it
	s.closes(b.Close)
	s.History, err = mongoleader.NewHistory(db, records)
	return s, err
}

// checkMongoOptions refuses options that the client would ignore. It has more to say of those that it knows.
func checkMongoOptions(l *Location) error {
	known, err := connstring.Parse(l.URL())
	if err != nil || len(known.UnknownOptions) == 0 {
		return nil //nolint:nilerr // the client says it again
	}
	names := slices.Sorted(maps.Keys(known.UnknownOptions))
	return fmt.Errorf("the store's URL has options that mongodb does not know: %s", strings.Join(names, ", "))
}
