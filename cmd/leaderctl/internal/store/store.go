// Package store opens the stores that the tool knows, by URL. Each has a file of its own.
package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/history"
)

// History is where records of runs are kept and read.
type History interface {
	history.Sink

	// Migrate creates what is missing.
	Migrate(ctx context.Context) error
	// Recent returns the last records of a name, or of all if it is empty, newest first.
	Recent(ctx context.Context, name string, limit int) ([]history.Record, error)
}

// Store is a store that was opened. Opening one does no I/O, except where its client connects by itself, and where a file
// has to be there.
type Store struct {
	Driver backend.Driver
	// History keeps records of runs; nil where the store has no place for them.
	History History
	// HistoryIn is the name of the driver whose store has the history, if that is not the one of Driver.
	HistoryIn string
	// Migrate creates what the driver needs; nil where that needs nothing.
	Migrate func(ctx context.Context) error
	// Rights says what the account has to be allowed.
	Rights string

	close []func() error // in the order of opening
}

// Options are what a store has to know beside its URL.
type Options struct {
	// Lease is how long leases last, for stores whose session has to be as long; 0 if nothing was said.
	Lease time.Duration
	// Create says that a file which does not exist may be created, with its tables. Else it has to be there.
	Create bool
	// History says that the store is opened for the history in it alone.
	History bool
}

// kind is a store that the tool knows.
type kind struct {
	open    func(ctx context.Context, l *Location, o Options) (*Store, error)
	example string
	bare    bool // its URL has no host
	history bool // it has a place for one
}

// kinds are the stores by the scheme of their URLs.
var kinds = map[string]kind{
	"redis":  {open: openRedis, example: "redis://[user:password@]host:6379[/0][?prefix=…&addr=…&master_name=…]"},
	"rediss": {open: openRedis, example: "rediss://[user:password@]host:6379[/0][?prefix=…]"},
	"postgres": {
		open: openPostgres, example: "postgres://user[:password]@host:5432/database[?table=…&sslmode=…]", history: true,
	},
	"postgresql": {open: openPostgres, history: true},
	"mysql":      {open: openMySQL, example: "mysql://user[:password]@host:3306/database[?table=…&tls=…]", history: true},
	"sqlite":     {open: openSQLite, example: "sqlite:path/to/leader.db[?table=…]", bare: true, history: true},
	"mongodb": {
		open: openMongo, history: true,
		example: "mongodb://[user:password@]host:27017,…/database[?collection=…&replicaSet=…]",
	},
	"etcd":   {open: openEtcd, example: "etcd://[user:password@]host:2379,…[?prefix=…&tls=true&ca=…&cert=…&key=…]"},
	"consul": {open: openConsul, example: "consul://[:token@]host:8500[?prefix=…&tls=true&ca=…&cert=…&key=…]"},
	"zookeeper": {
		open: openZooKeeper, example: "zookeeper://[user:password@]host:2181,…[/root][?tls=true&ca=…&cert=…&key=…]",
	},
	"dynamodb": {open: openDynamoDB, example: "dynamodb://[key:secret@]region[/table][?endpoint=…]"},
	"hazelcast": {
		open: openHazelcast, example: "hazelcast://[user:password@]host:5701,…[/cluster][?map=…&tls=true&ca=…&cert=…&key=…]",
	},
	"kubernetes": {open: openKubernetes, example: "kubernetes:[namespace][?context=…&kubeconfig=…]", bare: true},
}

// Open opens the store of a URL that Parse has read.
func Open(ctx context.Context, l *Location, o Options) (*Store, error) {
	k, ok := kinds[l.Scheme]
	if !ok {
		return nil, fmt.Errorf("%q is no store that this tool knows: use one of %s", l.Scheme, strings.Join(Schemes(), ", "))
	}
	if l.bare && !k.bare { // else it would be looked for on this machine
		return nil, fmt.Errorf("the store's URL has no host: write %s://host", l.Scheme)
	}
	if o.History && !k.history {
		return nil, fmt.Errorf("%s has no place for a history: give the URL of one of %s", l.Scheme,
			strings.Join(historySchemes(), ", "))
	}
	s, err := k.open(ctx, l, o)
	if err != nil {
		return nil, fmt.Errorf("open the store %s: %w", l, err)
	}
	return s, nil
}

// Schemes are the schemes of the URLs of all stores, in order.
func Schemes() []string { return slices.Sorted(maps.Keys(kinds)) }

// historySchemes are those of stores with a place for a history, in order.
func historySchemes() []string {
	return slices.DeleteFunc(Schemes(), func(scheme string) bool { return !kinds[scheme].history })
}

// Examples are URLs as they may look, in order.
func Examples() []string {
	var list []string
	for _, scheme := range Schemes() {
		if text := kinds[scheme].example; text != "" {
			list = append(list, text)
		}
	}
	return list
}

// closes adds what is to be called at the end.
func (s *Store) closes(f func() error) { s.close = append(s.close, f) }

// Close ends the clients, in at most the given time: a frozen connection must not keep the tool from ending.
func (s *Store) Close(within time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, f := range slices.Backward(s.close) {
			_ = f() // nothing is left to do about it
		}
	}()
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}
