package mongoleader

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The fields of a lease's document. What is free has a fieldLease of 0; what is kept has one, and no token.
const (
	fieldKey      = "_id"
	fieldFormat   = "format"
	fieldFence    = "fence"
	fieldToken    = "token"
	fieldSpent    = "spent"
	fieldSlot     = "slotToken" // the token once more, in slots only, where it is unique
	fieldOwner    = "owner"
	fieldMetadata = "metadata"
	fieldSince    = "since"
	fieldRenewed  = "renewedAt"
	fieldLease    = "leaseMs"
	fieldRenewals = "renewals"

	fieldNow = "now" // computed
)

// format is the major version of the documents.
const format int32 = 1

// doc makes a document of names and values in turn.
func doc(pairs ...any) bson.D {
	d := make(bson.D, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		d = append(d, bson.E{Key: name, Value: pairs[i+1]})
	}
	return d
}

// The clock is the server's: $$NOW in filters, $currentDate in updates. Where a time is missing the difference is null,
// which is less than any number, so that such a document counts as live and is looked at.
var (
	elapsed = doc("$subtract", bson.A{"$$NOW", "$" + fieldRenewed})
	expired = doc("$gte", bson.A{elapsed, "$" + fieldLease})
	live    = doc("$lt", bson.A{elapsed, "$" + fieldLease})

	isFree    = bson.A{doc(fieldLease, 0), doc("$expr", expired)}
	positive  = doc("$gt", 0)
	atLeast0  = doc("$gte", 0)
	startTerm = doc(fieldSince, true, fieldRenewed, true)
	startTime = doc(fieldRenewed, true)
	oneMore   = doc(fieldRenewals, 1)
	nextFence = doc(fieldFence, 1)
)

// shownLease and shownRecord are the fields that are read, and the server's clock.
var (
	shownLease = doc("$project", doc(fieldFormat, 1, fieldFence, 1, fieldToken, 1, fieldSpent, 1, fieldOwner, 1,
		fieldMetadata, 1, fieldSince, 1, fieldRenewed, 1, fieldLease, 1, fieldNow, "$$NOW"))
	shownRecord = doc("$project", doc(fieldFormat, 1, fieldVersion, 1, fieldValue, 1,
		fieldRenewed, 1, fieldLease, 1, fieldNow, "$$NOW"))
)

// endsBy is the condition that a lease ends no later than ms from now.
func endsBy(ms int64) bson.D {
	return doc("$lte", bson.A{doc("$subtract", bson.A{"$" + fieldLease, elapsed}), ms})
}

// readable is a filter for a key whose document is one of ours.
func readable(key string) bson.D {
	return doc(fieldKey, key, fieldFormat, format, fieldFence, positive, fieldLease, atLeast0)
}

// term is a filter for a key under a fence.
func term(key string, fence uint64) bson.D {
	return doc(fieldKey, key, fieldFormat, format, fieldFence, int64(fence)) //nolint:gosec // as it came
}

// and appends conditions to a filter.
func and(filter bson.D, pairs ...any) bson.D { return append(filter, doc(pairs...)...) }

// vacate is the update that frees a key and leaves token in it as spent.
func vacate(key, token string) bson.D {
	d := doc("$set", doc(fieldToken, "", fieldSpent, token, fieldLease, int64(0)))
	return withoutSlot(d, key)
}

// withoutSlot makes an update of a slot also free the token for other slots.
func withoutSlot(update bson.D, key string) bson.D {
	if isSlot(key) {
		update = and(update, "$unset", doc(fieldSlot, ""))
	}
	return update
}

// millis converts a TTL, or a time to keep, to the stored one: whole ms rounded up, and one more because the server cuts
// the instant from which it counts to whole ms.
func millis(d time.Duration) int64 {
	return int64((d+time.Millisecond-1)/time.Millisecond) + 1
}
