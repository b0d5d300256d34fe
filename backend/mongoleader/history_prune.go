package mongoleader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader/history"
)

// chunk is how many documents are deleted at once, at most.
const chunk = 1000

// Prune deletes what is not to be kept, and returns how many records that were, also with an error. A run that is deleted
// while it is Running is recorded again at its end. Nothing prunes by itself: call it now and then, on one node, which is
// a job for RunIfLeader. Age is judged by the local clock. ctx governs the requests.
func (h *History) Prune(ctx context.Context, keep history.Retention) (deleted int64, err error) {
	if keep.MaxAge < 0 || keep.MaxPerName < 0 {
		return 0, fmt.Errorf("mongoleader: history: prune: a retention must not be negative: %+v", keep)
	}
	if keep.MaxAge > 0 {
		cutoff := time.Now().Add(-keep.MaxAge).UnixMicro()
		deleted, err = h.deleteAll(ctx, doc("written", doc("$lt", cutoff)))
	}
	if keep.MaxPerName > 0 && err == nil {
		var more int64
		more, err = h.pruneByCount(ctx, int64(keep.MaxPerName))
		deleted += more
	}
	if err != nil {
		return deleted, fmt.Errorf("mongoleader: history: prune: %w", classify(ctx, err))
	}
	return deleted, nil
}

// deleteAll deletes what matches, in chunks, oldest first.
func (h *History) deleteAll(ctx context.Context, filter bson.D) (deleted int64, err error) {
	oldestFirst := options.Find().SetSort(doc("written", 1, "_id", 1)).SetProjection(doc("_id", 1)).SetLimit(chunk)
	for {
		var found []bson.D
		cursor, err := h.runs.Find(ctx, filter, oldestFirst)
		if err == nil {
			err = cursor.All(ctx, &found)
		}
		if err != nil || len(found) == 0 {
			return deleted, err
		}
		ids := make(bson.A, len(found))
		for i, d := range found {
			ids[i] = d[0].Value
		}
		result, err := h.runs.DeleteMany(ctx, doc("_id", doc("$in", ids)))
		if err != nil {
			return deleted, err
		}
		deleted += result.DeletedCount
		if len(found) < chunk {
			return deleted, nil
		}
	}
}

func (h *History) pruneByCount(ctx context.Context, keep int64) (deleted int64, err error) {
	names, err := h.crowdedNames(ctx, keep)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		var last run // that is kept
		newest := options.FindOne().SetSort(doc("written", -1, "_id", -1)).SetSkip(keep - 1)
		err := h.runs.FindOne(ctx, doc("name", name), newest).Decode(&last)
		if errors.Is(err, mongo.ErrNoDocuments) {
			continue // somebody else prunes as well
		}
		if err != nil {
			return deleted, err
		}
		n, err := h.deleteAll(ctx, doc("name", name, "$or", bson.A{
			doc("written", doc("$lt", last.Written)),
			doc("written", last.Written, "_id", doc("$lt", last.ID)),
		}))
		deleted += n
		if err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// crowdedNames are the names of more records than are kept.
func (h *History) crowdedNames(ctx context.Context, keep int64) ([]string, error) {
	cursor, err := h.runs.Aggregate(ctx, bson.A{
		doc("$group", doc("_id", "$name", "records", doc("$sum", 1))),
		doc("$match", doc("records", doc("$gt", keep))),
	})
	if err != nil {
		return nil, err
	}
	var groups []struct {
		Name string `bson:"_id"`
	}
	if err := cursor.All(ctx, &groups); err != nil {
		return nil, err
	}
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = g.Name
	}
	return names, nil
}
