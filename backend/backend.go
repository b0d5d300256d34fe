package backend

import (
	"context"
	"strconv"
	"time"
)

// Driver is one store behind one client. All methods may be called concurrently.
//
// The user owns the client and its configuration. A constructor of a driver does no I/O; it takes the client and an
// options struct of which nil and the zero value mean the defaults.
type Driver interface {
	// Name is the store's short name for errors, logs and metrics: "redis".
	Name() string

	// TryAcquire makes one attempt and never waits for another holder. It returns [ErrHeld], usually as [*HeldError],
	// if another token holds the key, and [ErrLost] if req.Token is the last one spent on it (rules 1 to 4). After any
	// other error the outcome is unknown: the attempt may have been applied, or may be applied later.
	TryAcquire(ctx context.Context, req Request) (Lease, error)

	// Abandon gives up an attempt whose outcome is unknown. If req.Token holds the key it is freed, and where a record
	// remains the token is refused (ErrLost) while it is the last one spent. It returns nil when nothing is left to do,
	// and also when another token holds the key, whose lease it never touches.
	Abandon(ctx context.Context, req Request) error

	// Inspect reports the current holder; the zero Holder means that the key is free. An expired lease is free.
	Inspect(ctx context.Context, key string) (Holder, error)
}

// Request is one acquisition. The same Request is sent again when its answer was lost.
type Request struct {
	Key      string            // 1 to 1600 bytes of UTF-8 without control characters, built by the engine (rule 11)
	Token    string            // 26 characters, secret, new for each acquisition
	Owner    string            // the node, for people
	TTL      time.Duration     // how long the lease lasts from now unless renewed; > 0
	Metadata map[string]string // shown by Inspect; not modified
}

// Lease is a granted right, held by whoever has the value. Its methods may be called concurrently (rule 10).
type Lease interface {
	// Fence is greater than every fence granted before for the key and constant for this lease (rule 4).
	Fence() uint64

	// Renew moves the end to at least now+ttl and never to an earlier instant. [ErrLost] means that the lease is over
	// for good; any other error means that the outcome is unknown (rule 5).
	Renew(ctx context.Context, ttl time.Duration) error

	// Release ends the lease. With keep > 0 the key stays taken for that long, by nobody (rule 6).
	Release(ctx context.Context, keep time.Duration) error
}

// Holder is who has a key. The zero Holder means that nobody has.
type Holder struct {
	Owner     string            // Request.Owner of the holder; also while Kept
	Fence     uint64            // of the current or kept lease; not 0 while the key is taken
	Since     time.Time         // of the acquisition, by the store's clock where it has one
	Remaining time.Duration     // until expiry unless renewed; 0 if unknown
	Kept      bool              // released, but kept taken by a minimum lease
	Seen      string            // opaque state of the record, for Waiter
	Metadata  map[string]string // Request.Metadata of the holder
}

// Free reports whether nobody has the key.
func (h Holder) Free() bool { return h.Fence == 0 && h.Owner == "" && !h.Kept && h.Remaining == 0 }

// SlotKey is the key of one slot of a group.
func SlotKey(key string, slot int) string { return key + "#" + strconv.Itoa(slot) }
