package mongoleader

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/goleader/leader/backend"
)

// The warnings of Advise.
const (
	standaloneWarning = "the server is a standalone: a lost disk or a restart elsewhere forgets its leases, and who waits " +
		"has to poll; use a replica set, of one member if need be"
	arbiterWarning = "the replica set has arbiters: while a member with data is down no majority may be able to confirm " +
		"a write, and nobody is elected; use a member with data in place of each"
	routerWarning = "the deployment is sharded: leases are judged by the clocks of the routers and of the shard's " +
		"primary, which have to agree within the safety margin; keep them in step"
	memoryWarning = "the storage engine keeps nothing: a restarted server has forgotten its leases, and another node " +
		"leads at once; use one that is persistent"
)

// Advise looks at what kind of deployment it is, at its storage engine, and at the collation of the collections. It warns
// of a standalone server, of arbiters, of sharding, of an engine that keeps nothing, and of a collation that takes
// different names for one. What the user must not see is passed over.
func (b *Backend) Advise(ctx context.Context) ([]string, error) {
	ctx, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := b.hello(ctx)
	if err != nil {
		return nil, err
	}
	list := deploymentAdvice(answer)
	status := doc("serverStatus", 1, "metrics", 0, "locks", 0, "repl", 0, "wiredTiger", 0)
	answer, err = b.db.Client().Database("admin").RunCommand(ctx, status).Raw()
	if err = classify(ctx, err); isOutage(err) {
		return nil, err
	}
	if err == nil {
		list = append(list, engineAdvice(answer)...)
	}
	for _, collection := range []string{b.leases.Name(), b.records.Name()} {
		fault, err := b.foldsNames(ctx, collection)
		if isOutage(err) {
			return nil, err
		}
		if fault != "" {
			list = append(list, fault)
		}
	}
	return list, nil
}

// isOutage reports whether an error is more than a refusal.
func isOutage(err error) bool { return backend.KindOf(err) == backend.Unavailable }

// deploymentAdvice judges the answer to hello.
func deploymentAdvice(hello bson.Raw) []string {
	if kind, _ := hello.Lookup("msg").StringValueOK(); kind == "isdbgrid" {
		return []string{routerWarning}
	}
	if set, _ := hello.Lookup("setName").StringValueOK(); set == "" {
		return []string{standaloneWarning}
	}
	if arbiters, ok := hello.Lookup("arbiters").ArrayOK(); ok {
		if values, err := arbiters.Values(); err == nil && len(values) > 0 {
			return []string{arbiterWarning}
		}
	}
	return nil
}

// engineAdvice judges the answer to serverStatus. A router tells of no engine.
func engineAdvice(status bson.Raw) []string {
	if persistent, ok := status.Lookup("storageEngine", "persistent").BooleanOK(); ok && !persistent {
		return []string{memoryWarning}
	}
	return nil
}
