package mongoleader

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader/backend"
)

// ensureIndex creates the index that keeps a token from having two slots, unless it is known to be there.
func (b *Backend) ensureIndex(ctx context.Context) error {
	ctx, err := b.begin(ctx)
	if err != nil || b.indexed.Load() {
		return err
	}
	index := mongo.IndexModel{Keys: doc(fieldSlot, 1), Options: options.Index().SetUnique(true).SetSparse(true)}
	if _, err := b.leases.Indexes().CreateOne(ctx, index); err != nil {
		err = classify(ctx, err)
		return backend.WithKind(fmt.Errorf("create the index for groups: %w", err), backend.KindOf(err))
	}
	b.indexed.Store(true)
	return nil
}

// Migrate creates the collections, with the simple collation, and the index that groups need; what is there already
// stays. Calling it is optional, since the server creates a collection at the first write, but names need the simple
// collation: Migrate returns an error of kind [backend.Misconfigured] where a collection has another one. It needs the
// privileges to create collections and indexes, and to list collections.
func (b *Backend) Migrate(ctx context.Context) error {
	ctx, err := b.begin(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range []*mongo.Collection{b.leases, b.records} {
		err := b.db.CreateCollection(ctx, c.Name())
		if err != nil && !hasCode(err, namespaceExists) {
			return classify(ctx, err)
		}
		folds, err := b.foldsNames(ctx, c.Name())
		if err != nil {
			return err
		}
		if folds != "" {
			errs = append(errs, errors.New(folds))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return backend.WithKind(err, backend.Misconfigured)
	}
	return b.ensureIndex(ctx)
}

// foldsNames says what is wrong with the collation of a collection, "" if nothing is.
func (b *Backend) foldsNames(ctx context.Context, collection string) (string, error) {
	specs, err := b.db.ListCollectionSpecifications(ctx, doc("name", collection))
	if err != nil {
		return "", classify(ctx, err)
	}
	for _, spec := range specs {
		if text := collationFault(collection, spec.Options); text != "" {
			return text, nil
		}
	}
	return "", nil
}

// collationFault judges the options of a collection.
func collationFault(collection string, opts bson.Raw) string {
	locale, ok := opts.Lookup("collation", "locale").StringValueOK()
	if !ok || locale == "simple" {
		return ""
	}
	return fmt.Sprintf("collection %s has the collation %q: names that differ in case or accents may be taken for one; "+
		"use a collection with the simple collation", collection, locale)
}
