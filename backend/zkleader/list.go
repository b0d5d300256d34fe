package zkleader

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader/backend"
)

// List reads the names of all nodes below the root, and those that begin with prefix, some at a time.
func (b *Backend) List(ctx context.Context, prefix string, all bool) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) {
		keys, err := b.keys(ctx, prefix)
		if err != nil {
			yield(backend.Entry{}, err)
			return
		}
		var damaged []error
		for some := range slices.Chunk(keys, looks) {
			entries, errs, err := b.entries(ctx, some, all)
			if err != nil {
				yield(backend.Entry{}, err)
				return
			}
			damaged = append(damaged, errs...)
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
		}
		if err := errors.Join(damaged...); err != nil {
			yield(backend.Entry{}, backend.WithKind(err, backend.Misconfigured))
		}
	}
}

// keys returns the keys of leases that begin with prefix.
func (b *Backend) keys(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	root := b.options.Root
	err := b.do(ctx, root, func(s *session) (err error) {
		names, _, err = s.conn.Children(root)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	})
	var keys []string
	for _, name := range names {
		key, ok := keyOf(name)
		if ok && strings.HasPrefix(key, prefix) && !strings.Contains(key, "!") {
			keys = append(keys, key)
		}
	}
	return keys, err
}

// entries looks at keys. What is none of ours is left out; damaged says which of ours cannot be read.
func (b *Backend) entries(ctx context.Context, keys []string, all bool) (list []backend.Entry, damaged []error, err error) {
	seen, errs := make([]*sight, len(keys)), make([]error, len(keys))
	atOnce(len(keys), func(i int) { seen[i], errs[i] = b.look(ctx, b.path(keys[i])) })
	for i, g := range seen {
		switch err := errs[i]; {
		case errors.Is(err, errForeign):
			continue
		case backend.KindOf(err) == backend.Misconfigured:
			damaged = append(damaged, err)
			continue
		case err != nil:
			return nil, nil, err
		}
		left := g.left(&b.clock)
		kept := g.Token == ""
		if kept && (left == 0 || !all) || left == 0 && !all {
			continue
		}
		h := g.shown(left)
		h.Metadata = maps.Clone(h.Metadata)
		list = append(list, backend.Entry{Key: keys[i], Holder: h})
	}
	return list, damaged, nil
}
