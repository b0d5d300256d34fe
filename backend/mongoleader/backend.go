package mongoleader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/goleader/leader/backend"
)

const (
	// DefaultCollection is the name of the collection of leases where none is given.
	DefaultCollection = "leader"

	recordsSuffix = "_records"
	maxCollection = 64

	minTTL = 10 * time.Millisecond
	maxTTL = 10 * 365 * 24 * time.Hour
)

// Options change the defaults of a [Backend]; the zero value keeps them.
type Options struct {
	// Collection is the name of the collection of leases; "" means [DefaultCollection]. Candidates and the like are in a
	// second one, whose name ends in _records. It has at most 64 ASCII letters, digits, dots, hyphens and underscores.
	// Backends exclude each other only if database and collection are the same.
	Collection string
}

// Backend elects on a collection of one MongoDB deployment. Its methods may be called concurrently.
type Backend struct {
	db      *mongo.Database
	options Options
	invalid error // why the arguments are refused

	leases  *mongo.Collection // writes wait for a journaled majority
	records *mongo.Collection // likewise
	hasty   *mongo.Collection // the leases once more; writes wait for the primary alone

	indexed atomic.Bool // the index that groups need is known to be there
	feed    *feed
}

var (
	_ backend.Driver       = (*Backend)(nil)
	_ backend.Limited      = (*Backend)(nil)
	_ backend.Checker      = (*Backend)(nil)
	_ backend.Advisor      = (*Backend)(nil)
	_ backend.Waiter       = (*Backend)(nil)
	_ backend.Watcher      = (*Backend)(nil)
	_ backend.SlotAcquirer = (*Backend)(nil)
	_ backend.Records      = (*Backend)(nil)
	_ backend.Lister       = (*Backend)(nil)
	_ backend.Breaker      = (*Backend)(nil)
)

// New returns a backend on db, whose client the caller goes on owning. Nil options mean the defaults. New does no I/O;
// [Backend.Check] says what is wrong with the arguments, and every other call repeats it. Concerns and preferences of
// the database and its client do not matter: the backend sets its own.
func New(db *mongo.Database, opts *Options) *Backend {
	b := &Backend{db: db}
	if opts != nil {
		b.options = *opts
	}
	if b.options.Collection == "" {
		b.options.Collection = DefaultCollection
	}
	b.feed = newFeed(b.openStream)
	b.invalid = backend.WithKind(check(db, b.options.Collection), backend.Misconfigured)
	if b.invalid != nil {
		return b
	}
	durable := concerned(&writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: new(true)})
	b.leases = db.Collection(b.options.Collection, durable)
	b.records = db.Collection(b.options.Collection+recordsSuffix, durable)
	b.hasty = db.Collection(b.options.Collection, concerned(writeconcern.W1()))
	return b
}

// concerned are the options of a collection that leave nothing to those of the user's client.
func concerned(w *writeconcern.WriteConcern) *options.CollectionOptionsBuilder {
	return options.Collection().
		SetWriteConcern(w).
		SetReadConcern(readconcern.Local()).
		SetReadPreference(readpref.Primary()).
		SetRegistry(bson.NewRegistry()).
		SetBSONOptions(&options.BSONOptions{})
}

// Name returns "mongo".
func (b *Backend) Name() string { return "mongo" }

// Limits returns the bounds of a TTL. An attempt that finds the key held takes a second round trip, and the first one
// waits for replication like a write, so that who waits looks first.
func (b *Backend) Limits() backend.Limits {
	return backend.Limits{MinTTL: minTTL, MaxTTL: maxTTL, LookFirst: true}
}

// Check reports what is wrong with the database and the options, of kind [backend.Misconfigured].
func (b *Backend) Check() error { return b.invalid }

// Close ends the change stream that waiters and watchers share, wakes those who still wait, with an error, and returns
// when the goroutine behind it has ended. Leases and the client are not affected. Only [Backend.AwaitRelease] cannot be
// used afterwards.
func (b *Backend) Close() error {
	b.feed.close()
	return nil
}

// ready says why no request may be sent.
func (b *Backend) ready(ctx context.Context) error {
	if b.invalid != nil {
		return b.invalid
	}
	return ctx.Err()
}

// begin returns the context for a request, or says why none may be sent. The request is no part of a transaction that
// the caller may have in ctx: a lease that is not committed is none, and one that is rolled back is lost.
func (b *Backend) begin(ctx context.Context) (context.Context, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	if mongo.SessionFromContext(ctx) != nil {
		ctx = mongo.NewSessionContext(ctx, nil)
	}
	return ctx, nil
}

func check(db *mongo.Database, collection string) error {
	var errs []error
	if db == nil {
		errs = append(errs, errors.New("the database is nil"))
	}
	if len(collection) > maxCollection {
		errs = append(errs, fmt.Errorf("collection name of %d bytes is longer than %d", len(collection), maxCollection))
	}
	if strings.ContainsFunc(collection, isOdd) {
		errs = append(errs, fmt.Errorf("collection name %q has characters other than ASCII letters, digits, dots, "+
			"hyphens and underscores", collection))
	}
	if strings.HasPrefix(collection, "system.") || strings.HasPrefix(collection, ".") {
		errs = append(errs, fmt.Errorf("collection name %q is not allowed by MongoDB", collection))
	}
	return errors.Join(errs...)
}

// isOdd reports whether c needs quoting somewhere, or is refused by MongoDB in the name of a collection.
func isOdd(c rune) bool {
	letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	return !letter && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_'
}

func checkTTL(ttl time.Duration) error {
	var err error
	switch {
	case ttl < minTTL:
		err = fmt.Errorf("ttl %v is under the minimum of %v", ttl, minTTL)
	case ttl > maxTTL:
		err = fmt.Errorf("ttl %v is over the maximum of %v", ttl, maxTTL)
	}
	return backend.WithKind(err, backend.Misconfigured)
}

func checkKeep(keep time.Duration) error {
	if keep <= maxTTL {
		return nil
	}
	return backend.WithKind(fmt.Errorf("keep %v is over the maximum of %v", keep, maxTTL), backend.Misconfigured)
}
