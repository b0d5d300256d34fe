package mongoleader

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader/backend"
)

const (
	// awaitTime is how long the server waits for a change before it answers that there was none.
	awaitTime = time.Second
	// silence is how long an answer may take before the connection counts as lost.
	silence = 10 * time.Second
)

// changes is a change stream of the collection of leases. It leaves out renewals: those set neither a token nor a lease
// of 0.
type changes struct{ stream *mongo.ChangeStream }

var interesting = bson.A{
	doc("$match", doc("$or", bson.A{
		doc("operationType", doc("$ne", "update")),
		doc("updateDescription.updatedFields."+fieldToken, doc("$exists", true)),
		doc("updateDescription.updatedFields."+fieldLease, 0),
	})),
	doc("$project", doc("operationType", 1, "documentKey", 1)),
}

func (b *Backend) openStream(ctx context.Context) (stream, error) {
	ctx, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	s, err := b.leases.Watch(ctx, interesting, options.ChangeStream().SetMaxAwaitTime(awaitTime))
	if err != nil {
		return nil, classify(ctx, err)
	}
	return changes{s}, nil
}

func (c changes) next(ctx context.Context) (key string, changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	if !c.stream.TryNext(ctx) {
		if err := c.stream.Err(); err != nil {
			return "", false, classify(ctx, err)
		}
		if c.stream.ID() == 0 {
			return "", false, errInvalidated
		}
		return "", false, nil
	}
	key, _ = c.stream.Current.Lookup("documentKey", fieldKey).StringValueOK()
	return key, true, nil
}

// errInvalidated says that the collection was dropped or renamed.
var errInvalidated = backend.WithKind(errors.New("the change stream has ended"), backend.Unavailable)

func (c changes) close(ctx context.Context) { _ = c.stream.Close(ctx) }

// refusalCodes are those of a server by which it has no change streams, or not for this user.
var refusalCodes = []int{
	0,     // of servers that are no MongoDB
	13,    // Unauthorized
	59,    // CommandNotFound
	115,   // CommandNotSupported
	323,   // APIStrictError
	40324, // an unknown stage
	40573, // a standalone
}

// refusesStreams reports whether the server said that it does not tell of changes, and will not say otherwise soon.
func refusesStreams(err error) bool {
	return hasCode(err, refusalCodes...) && backend.KindOf(err) != backend.Unavailable
}
