package store

import (
	"cmp"
	"context"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader/backend/mongoleader"
)

const mongoRights = "find, insert, update, remove, createIndex, createCollection, listCollections and changeStream on the " +
	"database: the role readWrite has them"

// openMongo opens a database, "leader" unless the URL names one.
func openMongo(ctx context.Context, l *Location, _ Options) (*Store, error) {
	own := &mongoleader.Options{Collection: l.Own("collection")}
	records := &mongoleader.HistoryOptions{Collection: l.Own("history_collection")}
	database := cmp.Or(l.Path, "leader")
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
