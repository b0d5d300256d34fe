package redisleader

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
)

// scanCount is how many keys of the database the server looks at in one step of a list.
const scanCount = 1000

// List looks at every key of the database, in steps of 1,000 that take two round trips at most, on each primary of a
// cluster. It is for people and tools. What is taken or released meanwhile may be missing, and what is not a readable
// record is passed over. An expired lease is listed for as long as its record remains.
func (b *Backend) List(ctx context.Context, prefix string, all bool) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) {
		l := &listing{backend: b, pattern: b.pattern(prefix), told: map[string]struct{}{}, yield: yield}
		if all {
			l.all = 1
		}
		if err := l.run(ctx); err != nil {
			yield(backend.Entry{}, err)
		}
	}
}

// listing is one run of List.
type listing struct {
	backend *Backend
	pattern string
	all     int                 // 1 if expired leases and kept keys are asked for
	told    map[string]struct{} // because SCAN may name a key more than once
	yield   func(backend.Entry, error) bool
}

// run returns an error that is still to be told.
func (l *listing) run(ctx context.Context) error {
	if err := l.backend.ready(ctx); err != nil {
		return err
	}
	nodes, err := l.backend.primaries(ctx)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if goOn, err := l.scan(ctx, node); err != nil || !goOn {
			return err
		}
	}
	return nil
}

// scan lists what one server has. goOn is false when the caller wants no more.
func (l *listing) scan(ctx context.Context, node redis.UniversalClient) (goOn bool, err error) {
	for cursor := uint64(0); ; {
		records, next, err := node.Scan(ctx, cursor, l.pattern, scanCount).Result()
		if err != nil {
			return false, l.backend.classify(ctx, err)
		}
		if goOn, err := l.page(ctx, records); err != nil || !goOn {
			return false, err
		}
		if cursor = next; cursor == 0 {
			return true, nil
		}
	}
}

func (l *listing) page(ctx context.Context, records []string) (goOn bool, err error) {
	entries := make([]backend.Entry, 0, len(records))
	records = slices.DeleteFunc(records, func(record string) bool {
		key, ok := l.backend.keyOf(record)
		if _, told := l.told[record]; told || !ok || strings.Contains(key, "!") {
			return true
		}
		l.told[record] = struct{}{}
		entries = append(entries, backend.Entry{Key: key})
		return false
	})
	replies, err := l.inspect(ctx, records)
	if err != nil {
		return false, err
	}
	for i, reply := range replies {
		if reply == nil {
			continue
		}
		if entries[i].Holder, err = decodeHolder(reply); err != nil {
			return false, err
		}
		if entries[i].Kept && l.all == 0 {
			continue
		}
		if !l.yield(entries[i], nil) {
			return false, nil
		}
	}
	return true, nil
}

// inspect asks for the holders of all records at once, and returns nil for those that have none.
func (l *listing) inspect(ctx context.Context, records []string) ([][]any, error) {
	if len(records) == 0 {
		return nil, nil
	}
	replies, err := l.pipeline(ctx, inspectScript.EvalSha, records)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		replies, err = l.pipeline(ctx, inspectScript.Eval, records)
	}
	return replies, l.backend.classify(ctx, err)
}

func (l *listing) pipeline(ctx context.Context, eval eval, records []string) ([][]any, error) {
	pipe := l.backend.client.Pipeline()
	answers := make([]*redis.Cmd, len(records))
	for i, record := range records {
		answers[i] = eval(ctx, pipe, []string{record}, strconv.Itoa(l.all))
	}
	_, _ = pipe.Exec(ctx) // Each answer has its own error.
	replies := make([][]any, len(records))
	for i, answer := range answers {
		reply, err := answer.Result()
		switch {
		case err != nil && !isForeign(err):
			return nil, err
		case err == nil:
			replies[i], _ = reply.([]any) // A free key is a number.
		}
	}
	return replies, nil
}

// primaries returns the clients of the servers that together have all keys.
func (b *Backend) primaries(ctx context.Context) ([]redis.UniversalClient, error) {
	cluster, ok := b.client.(*redis.ClusterClient)
	if !ok {
		return []redis.UniversalClient{b.client}, nil
	}
	var mu sync.Mutex
	var nodes []redis.UniversalClient
	err := cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	})
	return nodes, b.classify(ctx, err)
}
