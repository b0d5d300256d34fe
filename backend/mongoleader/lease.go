package mongoleader

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/goleader/leader/backend"
)

// lease is a granted right. It has no state of its own but its identity.
type lease struct {
	backend *Backend
	key     string
	token   string
	fence   uint64
}

func (l *lease) Fence() uint64 { return l.fence }

// Renew moves the end in one round trip. One that finds a later end, or none, takes a second.
func (l *lease) Renew(ctx context.Context, ttl time.Duration) error {
	if err := checkTTL(ttl); err != nil {
		return err
	}
	b, ms := l.backend, millis(ttl)
	still := doc("$and", bson.A{live, endsBy(ms)})
	n, err := b.update(ctx, b.leases, and(l.held(), "$expr", still),
		doc("$set", doc(fieldLease, ms), "$currentDate", startTime, "$inc", oneMore))
	if n > 0 || err != nil {
		return err
	}
	// The lease is over, or ends later than asked for; a lease that is over never comes back. What the store says of a
	// later end must be as durable as a renewal, so it is written.
	n, err = b.update(ctx, b.leases, and(l.held(), "$expr", live), doc("$inc", oneMore))
	if n == 0 && err == nil {
		return backend.ErrLost
	}
	return err
}

// Release ends the lease in one round trip. It waits for the primary alone, unless the key is to be kept: if a failover
// forgets it, the lease ends by itself.
func (l *lease) Release(ctx context.Context, keep time.Duration) error {
	if err := checkKeep(keep); err != nil {
		return err
	}
	if keep > 0 {
		if kept, err := l.keep(ctx, millis(keep)); kept || err != nil {
			return err
		}
	}
	b := l.backend
	n, err := b.update(ctx, b.hasty, l.ours(), vacate(l.key, l.token))
	if n > 0 || err != nil {
		return err
	}
	_, err = b.look(ctx, l.key) // to report a document that is unreadable
	return err
}

// keep makes a lease that is live, or is kept already, one that nobody holds. kept is false if there is no such.
func (l *lease) keep(ctx context.Context, ms int64) (kept bool, err error) {
	b := l.backend
	update := doc("$set", doc(fieldToken, "", fieldSpent, l.token, fieldLease, ms), "$currentDate", startTime)
	n, err := b.update(ctx, b.leases, and(l.ours(), "$expr", live), withoutSlot(update, l.key))
	return n > 0, err
}

// held is a filter for the document while the token is in it.
func (l *lease) held() bson.D { return and(term(l.key, l.fence), fieldToken, l.token) }

// ours is a filter for the document while nobody else has had it.
func (l *lease) ours() bson.D {
	return and(term(l.key, l.fence), "$or", bson.A{doc(fieldToken, l.token), doc(fieldSpent, l.token)})
}
