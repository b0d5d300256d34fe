package backend

import (
	"context"
	"iter"
	"time"
)

// The optional abilities of a Driver or Lease, found by As.

// Limited says what TTLs the store can keep, and how its calls behave. The answer is constant.
type Limited interface{ Limits() Limits }

// Limits bounds TTLs. Zero means no bound.
type Limits struct {
	MinTTL, MaxTTL time.Duration // a TTL outside is an error, of kind Misconfigured, that names the limit
	FixedTTL       bool          // Renew can only repeat the TTL of the acquisition (etcd, Consul, ZooKeeper)
	Late           time.Duration // how long after its end a lease may still look held (Consul: one TTL)
	Blocking       bool          // calls may outlive their context; the engine runs them aside
	Punctual       bool          // … but not their context's deadline: they only miss its cancellation
	InProcess      bool          // the store is memory of this process alone: calls neither wait nor do I/O
	LookFirst      bool          // a losing TryAcquire costs the store a write or a log entry
}

// Checker reports bad options, without I/O; leader.New returns its error.
type Checker interface{ Check() error }

// Advisor looks at the store's settings and says in words what may cost safety (an evicting memory policy, no
// append-only file). The engine asks once, after the first success, and logs the answers.
type Advisor interface {
	Advise(ctx context.Context) (warnings []string, err error)
}

// Waiter tells when another attempt is worth it. AwaitRelease subscribes, compares the record with seen (the Seen of a
// Holder that an attempt or Inspect returned), then waits until the key may have become free, and returns nil. It may
// return early; it must return when ctx ends, with an error that wraps ctx's, also in a driver that is Blocking. It
// need not notice an expiry. Any other error means that it cannot tell, and the caller polls; after one that wraps
// [errors.ErrUnsupported], because this deployment of the store tells nobody, it does not ask again.
type Waiter interface {
	AwaitRelease(ctx context.Context, key, seen string) error
}

// LossNotifier is a Lease that learns by itself that it is over. The channel is closed then; it need not be closed
// after Release. The engine asks for it when a lease is 10 ms old, so what it costs is not paid by short ones.
type LossNotifier interface{ Lost() <-chan struct{} }

// SlotAcquirer takes any free one of the slots 0 to n-1 of a group in one request. req.Key is the group's key; slot i of
// key k has a record of its own, under SlotKey(k, i), to which all rules apply: its fence, its spent token, its end. A
// token that holds one of the slots gets that slot again, as in rule 3; one that is the last spent token of any of them
// is refused with ErrLost. If all n are taken, the error is a HeldError with the holder whose lease ends first. Slots
// from n on are not looked at.
type SlotAcquirer interface {
	TryAcquireSlot(ctx context.Context, req Request, n int) (l Lease, slot int, err error)
}

// Watcher yields the holder now and after each change of holder, until ctx ends or an error, which is yielded last.
// Changes in quick succession may merge; the newest always comes. An error that wraps [errors.ErrUnsupported] says that
// this deployment of the store tells nobody; the caller then polls.
type Watcher interface {
	Watch(ctx context.Context, key string) iter.Seq2[Holder, error]
}

// Lister yields every held key that begins with prefix, slots included and records not, and kept and expired ones, whose
// Remaining is 0, if all is set. The keys are those that the engine built, in no particular order. An error is yielded
// last.
type Lister interface {
	List(ctx context.Context, prefix string, all bool) iter.Seq2[Entry, error]
}

// Entry is a key and its holder.
type Entry struct {
	Key string
	Holder
}

// Breaker ends somebody else's lease, or what is kept of it, but only while the key is taken under that fence (else
// ErrConflict). The holder is told by its next renewal; its token is spent; those who wait for the key are woken.
type Breaker interface {
	Break(ctx context.Context, key string, fence uint64) error
}

// Records keeps small values beside the leases: candidates, run keys, exclusions. Everything above a compare-and-set
// is written once, in the engine. A record whose TTL has passed does not exist.
type Records interface {
	// PutRecord stores r if the stored version equals r.Version ("" = must not exist), else ErrConflict. The version it
	// returns differs from every earlier one of that key, deleted ones included. The TTL counts from now.
	PutRecord(ctx context.Context, r Record) (version string, err error)
	// GetRecords returns the records of a set, whose prefix is all of their keys up to and with the slash, in no
	// particular order, and the store's clock, which is zero if it has none.
	GetRecords(ctx context.Context, prefix string) (list []Record, now time.Time, err error)
	// DeleteRecord deletes r.Key if the stored version equals r.Version, else ErrConflict; a missing record is no error.
	DeleteRecord(ctx context.Context, r Record) error
}

// Record is a value of at most 16 KiB under a key that is built as name!kind/id.
type Record struct {
	Key     string
	Version string // opaque; not empty when stored
	Value   []byte
	TTL     time.Duration // 0 = until deleted; what is left, in an answer of GetRecords
}

// Unwrapper is a decorated Driver.
type Unwrapper interface{ Unwrap() Driver }

// As finds an ability of d or of the driver that it decorates.
func As[T any](d Driver) (T, bool) {
	for d != nil {
		if t, ok := any(d).(T); ok {
			return t, true
		}
		u, ok := d.(Unwrapper)
		if !ok {
			break
		}
		d = u.Unwrap()
	}
	var zero T
	return zero, false
}
