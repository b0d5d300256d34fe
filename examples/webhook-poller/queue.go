package main

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/mongoleader"
)

// The states of a webhook.
const (
	pending   = "pending"
	claimed   = "claimed" // by the leader with this fence, which is sending it
	delivered = "delivered"
)

// webhook is a document of the queue.
type webhook struct {
	ID     string `bson:"_id"`
	URL    string `bson:"url"`
	Body   string `bson:"body"`
	Status string `bson:"status"`
	Claims int    `bson:"claims"` // how often it was claimed, and so at most how often it was sent
	Node   string `bson:"node,omitempty"`
	Fence  int64  `bson:"fence,omitempty"` // of the leader that claimed it last
}

// queue is a collection of webhooks.
type queue struct{ webhooks *mongo.Collection }

// claim takes a webhook that is pending, or that a former leader claimed and did not finish: in one step, so that no two
// senders take the same one, and never one that a later leader has claimed.
func (q queue) claim(ctx context.Context, held *leader.Lease) (w webhook, found bool, err error) {
	fence := mongoleader.Fence(held)
	open := bson.A{
		bson.D{{Key: "status", Value: pending}},
		bson.D{{Key: "status", Value: claimed}, {Key: "fence", Value: bson.D{{Key: "$lt", Value: fence}}}},
	}
	filter := mongoleader.Fenced(held, "fence", bson.D{{Key: "$or", Value: open}})
	update := bson.D{
		{Key: "$set", Value: bson.D{
			{Key: "status", Value: claimed}, {Key: "fence", Value: fence}, {Key: "node", Value: held.Info().Node},
		}},
		{Key: "$inc", Value: bson.D{{Key: "claims", Value: 1}}},
	}
	// Those that failed before come last.
	order := bson.D{{Key: "claims", Value: 1}, {Key: "_id", Value: 1}}
	err = q.webhooks.FindOneAndUpdate(ctx, filter, update,
		options.FindOneAndUpdate().SetSort(order).SetReturnDocument(options.After)).Decode(&w)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return webhook{}, false, nil
	}
	return w, err == nil, err
}

// finish notes that a webhook was delivered, or puts it back. It does neither if a later leader has claimed it.
func (q queue) finish(ctx context.Context, held *leader.Lease, w webhook, failed error) error {
	status := delivered
	if failed != nil {
		status = pending
		say("could not send %s: %v", w.ID, failed)
	}
	filter := bson.D{
		{Key: "_id", Value: w.ID}, {Key: "status", Value: claimed}, {Key: "fence", Value: mongoleader.Fence(held)},
	}
	update := bson.D{{Key: "$set", Value: bson.D{{Key: "status", Value: status}}}}
	result, err := q.webhooks.UpdateOne(ctx, filter, update)
	if err != nil {
		return err
	}
	if result.MatchedCount == 0 {
		return fmt.Errorf("%s: %w", w.ID, errStale)
	}
	return nil
}

// errStale says that a later leader has claimed what this one was sending.
var errStale = errors.New("claimed by a later leader")
