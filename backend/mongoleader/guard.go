package mongoleader

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

// fieldGuards counts the transactions that were guarded, because a transaction conflicts with what it has written, and not
// with what it has read.
const fieldGuards = "guards"

// Guard makes the transaction of ctx commit only if the lease still has its key. Call it last before the commit, inside
// the function that [mongo.Session.WithTransaction] runs:
//
//	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
//		if _, err := orders.UpdateOne(ctx, filter, update); err != nil {
//			return nil, err
//		}
//		return nil, b.Guard(ctx, lease)
//	})
//
// It writes to the document of the lease, on condition that the fence is the lease's and its end has not come by the
// server's clock. What it proves: when the transaction commits, nobody else has been given the key. If a take-over has
// been committed since the transaction began, the write is a conflict, the transaction is tried again, and then Guard
// fails; one that comes later waits for the transaction to end. So do renewals of the lease itself: a transaction that
// stays open for long after Guard costs the lease.
//
// The error wraps [leader.ErrLeaseLost] if the lease is over; without a transaction it is of kind
// [backend.Misconfigured]. Others are the driver's, with the labels by which WithTransaction tries again. The session
// has to be one of the client that the backend's database belongs to, and transactions need a replica set.
func (b *Backend) Guard(ctx context.Context, lease *leader.Lease) error {
	if s := mongo.SessionFromContext(ctx); s == nil || !s.TransactionRunning() {
		err := errors.New("mongoleader: guard: the context is not that of a running transaction")
		return backend.WithKind(err, backend.Misconfigured)
	}
	info := lease.Info()
	return b.guard(ctx, info.Key, info.Fence)
}

// guard is Guard, whatever ctx is.
func (b *Backend) guard(ctx context.Context, key string, fence uint64) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	filter := and(term(key, fence), fieldToken, doc("$gt", ""), "$expr", live)
	result, err := b.leases.UpdateOne(ctx, filter, doc("$inc", doc(fieldGuards, 1)))
	switch {
	case err != nil:
		return fmt.Errorf("mongoleader: guard %q: %w", key, classify(ctx, err))
	case result.MatchedCount == 0:
		return fmt.Errorf("mongoleader: guard %q: %w", key, leader.ErrLeaseLost)
	}
	return nil
}

// Fence is the fence of a lease as MongoDB stores it, to be written into documents that [Fenced] guards.
func Fence(lease *leader.Lease) int64 {
	return int64(lease.Info().Fence) //nolint:gosec // fences of this backend are stored as such
}

// Fenced narrows a filter to documents in which field holds no fence greater than the lease's. With an update that sets
// the field it lets no former leader overwrite what a later one has written:
//
//	filter := mongoleader.Fenced(lease, "fence", bson.D{{Key: "_id", Value: "report"}})
//	report := bson.D{{Key: "total", Value: total}, {Key: "fence", Value: mongoleader.Fence(lease)}}
//	update := bson.D{{Key: "$set", Value: report}}
//	result, err := reports.UpdateOne(ctx, filter, update, options.UpdateOne().SetUpsert(true))
//
// A MatchedCount of 0 says that a later leader has written, or that there is no such document; an upsert is a duplicate
// key in the first case, by the unique _id. What it proves: writes to one document follow the order of the fences. It asks
// nothing of the lease's own document and works on any deployment, in another database too, but it does not notice a
// take-over by a leader that has not written yet: that takes [Backend.Guard]. Every writer has to use it.
func Fenced(lease *leader.Lease, field string, filter bson.D) bson.D {
	return fenced(Fence(lease), field, filter)
}

// fenced is Fenced for a fence. A document without the field passes.
func fenced(fence int64, field string, filter bson.D) bson.D {
	return append(slices.Clip(filter), bson.E{Key: field, Value: doc("$not", doc("$gt", fence))})
}
