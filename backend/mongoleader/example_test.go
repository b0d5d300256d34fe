package mongoleader_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/mongoleader"
	"github.com/goleader/leader/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

var mongoURL, databaseName = "mongodb://localhost:27017/?replicaSet=rs0", "shop"

// Two processes share a database, and one of them writes the nightly report.
func Example() {
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(mongoURL))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Disconnect(ctx) }()
	b := mongoleader.New(client.Database(databaseName), nil)
	defer b.Close()
	web1, err := leader.New(b, leader.WithNodeID("web-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	web2, err := leader.New(b, leader.WithNodeID("web-2")) // in a service, that of another process
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := web1.RunIfLeader(ctx, "nightly-report", func(ctx context.Context) error {
		other, err := web2.RunIfLeader(ctx, "nightly-report", func(context.Context) error {
			fmt.Println("never printed: web-1 leads")
			return nil
		})
		fmt.Println("web-2:", other) // web-2: Skipped (Contended, held by web-1)
		return err
	})
	fmt.Println("web-1:", result.Outcome, errors.Join(err, result.Err)) // web-1: Elected <nil>
}

// A report is written unless a later leader has written it. In a transaction there is Backend.Guard.
func ExampleFenced() {
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(mongoURL))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Disconnect(ctx) }()
	db := client.Database(databaseName)
	b := mongoleader.New(db, nil)
	defer b.Close()
	web1, err := leader.New(b, leader.WithNodeID("web-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := web1.RunIfLeader(ctx, "nightly-report", func(ctx context.Context) error {
		lease, ok := leader.LeaseFrom(ctx)
		if !ok {
			return leader.ErrLeaseLost
		}
		filter := mongoleader.Fenced(lease, "fence", bson.D{{Key: "_id", Value: "nightly"}})
		report := bson.D{{Key: "total", Value: 42}, {Key: "fence", Value: mongoleader.Fence(lease)}}
		update := bson.D{{Key: "$set", Value: report}}
		_, err := db.Collection("reports").UpdateOne(ctx, filter, update, options.UpdateOne().SetUpsert(true))
		return err // a duplicate key, if a later leader has written
	})
	fmt.Println("web-1:", result.Outcome, errors.Join(err, result.Err)) // web-1: Elected <nil>
}

func TestExamples_PrintWhatTheySay(t *testing.T) {
	server := testserver.Mongo(t)
	mongoURL, databaseName = server.URL(), database(t, server, connect(t, server)).Name()
	const want = "web-2: Skipped (Contended, held by web-1)\nweb-1: Elected <nil>\nweb-1: Elected <nil>\n"
	exampletest.Prints(t, want, Example, ExampleFenced)
}
