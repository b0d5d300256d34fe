package zkleader

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"
)

// conflicts is how often an attempt is made that found something else than what it had seen.
const conflicts = 4

// created makes the node of a key in the transaction of its first record.
func (b *Backend) created(path string) *zk.CreateRequest {
	return &zk.CreateRequest{Path: path, Acl: b.acl}
}

// term makes the node of a term.
func (b *Backend) term(path string) *zk.CreateRequest {
	return &zk.CreateRequest{Path: path, Acl: b.acl, Flags: zk.FlagEphemeral}
}

// ended deletes the node of a term.
func ended(path string) *zk.DeleteRequest { return &zk.DeleteRequest{Path: path, Version: -1} }

// write stores a record where g was seen, if nobody has written since, in one transaction with more; it returns the new
// sight. Another error than a conflict leaves the outcome unknown.
func (b *Backend) write(ctx context.Context, g *sight, r record, more ...any) (*sight, error) {
	next := &sight{record: r, path: g.path}
	err := b.do(ctx, g.path, func(s *session) error {
		var ops []any
		version := g.stat.Version
		if !g.exists() {
			ops, version = append(ops, b.created(g.path)), 0
		}
		store := len(ops)
		if r.Session == pending {
			r.Session = s.conn.SessionID()
			next.record = r
		}
		ops = append(ops, &zk.SetDataRequest{Path: g.path, Data: r.encode(), Version: version})
		answers, err := s.conn.Multi(append(ops, more...)...)
		if errors.Is(err, zk.ErrNoNode) && !g.exists() {
			if err := b.create(s, b.options.Root); err != nil {
				return err
			}
			return zk.ErrNoNode
		}
		if err != nil {
			return err
		}
		next.stat, next.by = *answers[store].Stat, s
		return nil
	})
	if err != nil {
		b.sights.forget(g.path)
		return nil, err
	}
	next.alive = r.Token != ""
	b.clock.note(next.stat.Mtime)
	b.sights.note(next)
	return next, nil
}

// create makes a node without data, and those above it that are missing. It is no error if it is there.
func (b *Backend) create(s *session, path string) error {
	_, err := s.conn.Create(path, nil, 0, b.acl)
	if errors.Is(err, zk.ErrNoNode) {
		if above := path[:strings.LastIndexByte(path, '/')]; above != "" {
			if err := b.create(s, above); err != nil {
				return err
			}
			_, err = s.conn.Create(path, nil, 0, b.acl)
		}
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}
