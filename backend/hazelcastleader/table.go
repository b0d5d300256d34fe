package hazelcastleader

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/predicate"
	"github.com/hazelcast/hazelcast-go-client/types"

	"github.com/goleader/leader/backend"
)

// tryTimeout bounds one request. A member that is silent keeps the client waiting for up to two minutes.
const tryTimeout = 2 * time.Second

// table is a map of texts. What it writes is different each time, so that a look tells whether a write was applied.
type table struct {
	client *hazelcast.Client
	name   string
}

// get returns the value of a key, "" if there is none.
func (t *table) get(ctx context.Context, key string) (string, error) {
	var value any
	err := t.try(ctx, func(ctx context.Context, m *hazelcast.Map) (err error) {
		value, err = m.Get(ctx, key)
		return err
	})
	if err != nil || value == nil {
		return "", err
	}
	return textOf(key, value)
}

// getAll returns the values of those keys that have one.
func (t *table) getAll(ctx context.Context, keys []string) ([]types.Entry, error) {
	list := make([]any, len(keys))
	for i, key := range keys {
		list[i] = key
	}
	var found []types.Entry
	err := t.try(ctx, func(ctx context.Context, m *hazelcast.Map) (err error) {
		found, err = m.GetAll(ctx, list...)
		return err
	})
	return found, err
}

// getMatching returns the entries whose keys begin with prefix, and maybe others.
func (t *table) getMatching(ctx context.Context, prefix string) ([]types.Entry, error) {
	var found []types.Entry
	err := t.try(ctx, func(ctx context.Context, m *hazelcast.Map) (err error) {
		found, err = m.GetEntrySetWithPredicate(ctx, predicate.Regex("__key", beginning(prefix)))
		return err
	})
	return found, err
}

// change replaces the value before by the value next, where "" means none. found is what the key has then: next if the
// change was made. After an error the change may have been made, or may be made later.
func (t *table) change(ctx context.Context, key, before, next string, ttl time.Duration) (found string, err error) {
	changed := false
	err = t.try(ctx, func(ctx context.Context, m *hazelcast.Map) (err error) {
		changed, err = compareAndSet(ctx, m, key, before, next, ttl)
		return err
	})
	if changed {
		return next, nil
	}
	if end := ctx.Err(); end != nil {
		return "", cmp.Or(err, backend.WithKind(end, backend.Unavailable)) // A refusal alone does not tell what there is.
	}
	// The answer was lost, or it is that to a second try of the client's own, after the first was applied.
	found, failed := t.get(ctx, key)
	if err != nil && (failed != nil || found == before) {
		return "", err
	}
	return found, failed
}

func compareAndSet(
	ctx context.Context, m *hazelcast.Map, key, before, next string, ttl time.Duration,
) (changed bool, err error) {
	switch {
	case before != "" && next != "":
		return m.ReplaceIfSame(ctx, key, before, next)
	case before != "":
		return m.RemoveIfSame(ctx, key, before)
	}
	var found any
	if ttl > 0 {
		found, err = m.PutIfAbsentWithTTL(ctx, key, next, ttl)
	} else {
		found, err = m.PutIfAbsent(ctx, key, next)
	}
	return err == nil && found == nil, err
}

// try makes a request, for which it gives the client some time.
func (t *table) try(ctx context.Context, request func(ctx context.Context, m *hazelcast.Map) error) error {
	try, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	m, err := t.client.GetMap(try, t.name)
	if err == nil {
		err = request(try, m)
	}
	return classify(ctx, err)
}

// textOf is a value as a text. Somebody else may have put something else there.
func textOf(key string, value any) (string, error) {
	text, ok := value.(string)
	if !ok || text == "" {
		return "", unreadable(key, fmt.Errorf("it is of the type %T, or empty", value))
	}
	return text, nil
}

// beginning is a regular expression, of Java and so quoted, for texts that begin with prefix.
func beginning(prefix string) string { return "(?s)" + regexp.QuoteMeta(prefix) + ".*" }
