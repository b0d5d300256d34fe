package zkleader

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader/backend"
)

// note is the data of the node of a record of the engine. A child, named by the version, is what writes compare with:
// it is deleted by one and created by the next, so that no version is ever valid twice.
type note struct {
	Format  int    `json:"format"`
	Version string `json:"version"`
	TTL     int64  `json:"ttl,omitempty"` // in ms, from the write on; 0 for ever
	Value   []byte `json:"value"`
}

// expired is how many expired records one look at their set deletes.
const expired = 16

// PutRecord compares and stores, in one round trip unless the record has to be new and an expired one is in its place.
func (b *Backend) PutRecord(ctx context.Context, r backend.Record) (version string, err error) {
	set, path, err := b.place(r.Key)
	if err != nil {
		return "", err
	}
	if r.TTL < 0 {
		return "", backend.WithKind(fmt.Errorf("TTL %v is negative", r.TTL), backend.Misconfigured)
	}
	n := note{Format: format, Version: rand.Text(), TTL: millis(r.TTL), Value: r.Value}
	if r.Version != "" {
		return b.replace(ctx, path, r.Version, n)
	}
	version, err = b.insert(ctx, set, path, n)
	if !errors.Is(err, zk.ErrNodeExists) {
		return version, err
	}
	old, err := b.readRecord(ctx, path)
	if err != nil {
		return "", err
	}
	if old == nil || !b.isOver(old.end) {
		return "", backend.ErrConflict
	}
	return b.swap(ctx, path, old.Version, n)
}

// insert stores a record that must not exist.
func (b *Backend) insert(ctx context.Context, set, path string, n note) (version string, err error) {
	ops := []any{
		&zk.CreateRequest{Path: path, Acl: b.acl},
		&zk.CreateRequest{Path: guard(path, n.Version), Acl: b.acl},
	}
	version, err = b.store(ctx, path, n, ops...)
	if errors.Is(err, zk.ErrNoNode) {
		if err = b.do(ctx, set, func(s *session) error { return b.create(s, set) }); err == nil {
			version, err = b.store(ctx, path, n, ops...)
		}
	}
	return version, err
}

// replace stores a record instead of the version given.
func (b *Backend) replace(ctx context.Context, path, version string, n note) (string, error) {
	old, end, err := b.parseVersion(ctx, version)
	if err != nil {
		return "", err
	}
	if b.isOver(end) {
		return "", backend.ErrConflict
	}
	return b.swap(ctx, path, old, n)
}

func (b *Backend) swap(ctx context.Context, path, old string, n note) (string, error) {
	version, err := b.store(ctx, path, n,
		&zk.DeleteRequest{Path: guard(path, old), Version: -1},
		&zk.CreateRequest{Path: guard(path, n.Version), Acl: b.acl})
	if isConflict(err) {
		return "", backend.ErrConflict
	}
	return version, err
}

// store writes a record after the operations that compare.
func (b *Backend) store(ctx context.Context, path string, n note, compare ...any) (version string, err error) {
	data, err := json.Marshal(n)
	if err != nil {
		return "", fmt.Errorf("encode a record: %w", err)
	}
	err = b.do(ctx, path, func(s *session) error {
		ops := append(slices.Clone(compare), &zk.SetDataRequest{Path: path, Data: data, Version: -1})
		answers, err := s.conn.Multi(ops...)
		if err != nil {
			return err
		}
		stat := answers[len(ops)-1].Stat
		b.clock.note(stat.Mtime)
		version = versionOf(n.Version, n.end(stat))
		return nil
	})
	return version, err
}

// end is when the record ends by the server's clock, in ms; 0 for never.
func (n *note) end(stat *zk.Stat) int64 {
	if n.TTL == 0 {
		return 0
	}
	return stat.Mtime + n.TTL
}

// DeleteRecord compares and deletes in one round trip.
func (b *Backend) DeleteRecord(ctx context.Context, r backend.Record) error {
	_, path, err := b.place(r.Key)
	if err != nil {
		return err
	}
	version, _, err := b.parseVersion(ctx, r.Version)
	if err != nil {
		return err
	}
	err = b.drop(ctx, path, version)
	if !isConflict(err) {
		return err
	}
	left, err := b.readRecord(ctx, path)
	if err != nil || left == nil || b.isOver(left.end) {
		return err
	}
	return backend.ErrConflict
}

func (b *Backend) drop(ctx context.Context, path, version string) error {
	return b.do(ctx, path, func(s *session) error {
		_, err := s.conn.Multi(ended(guard(path, version)), ended(path))
		return err
	})
}

// versionOf is the version that the engine gets: the one that a node is named by, the end of the record by the server's
// clock, in ms, and a sum of both, so that a text that is not one of ours is no version.
func versionOf(name string, end int64) string {
	text := name + "@" + strconv.FormatInt(end, 10)
	sum := sha256.Sum256([]byte(text))
	return text + "@" + hex.EncodeToString(sum[:4])
}

func (b *Backend) parseVersion(ctx context.Context, version string) (name string, end int64, err error) {
	name, rest, _ := strings.Cut(version, "@")
	text, _, _ := strings.Cut(rest, "@")
	end, _ = strconv.ParseInt(text, 10, 64) // It is compared with the text below.
	if versionOf(name, end) != version {
		return "none", 0, nil // It is not the one that is stored.
	}
	if end != 0 {
		err = b.readClock(ctx)
	}
	return name, end, err
}

// isOver reports whether an end, in ms of the server's clock, has certainly passed.
func (b *Backend) isOver(end int64) bool {
	now, ok := b.clock.now()
	return end != 0 && ok && now > end
}

// guard is the child that a write compares with.
func guard(path, version string) string { return path + "/version-" + version }

// place returns the paths of the set, and of the node, of a record.
func (b *Backend) place(key string) (set, path string, err error) {
	set, id, ok := cutRecord(key)
	if !ok || id == "" {
		return "", "", notARecord(key)
	}
	set = b.path(set)
	return set, set + "/" + nodeName(id), nil
}

// cutRecord cuts name!kind/id at the slash; the id may be empty.
func cutRecord(key string) (set, id string, ok bool) {
	mark := strings.IndexByte(key, '!')
	if mark < 0 {
		return "", "", false
	}
	slash := strings.IndexByte(key[mark:], '/')
	if slash < 0 {
		return "", "", false
	}
	return key[:mark+slash], key[mark+slash+1:], true
}

func notARecord(key string) error {
	return backend.WithKind(fmt.Errorf("%q is not built as name!kind/id", key), backend.Misconfigured)
}

// stored is a record with its end by the server's clock.
type stored struct {
	note

	end int64
}

// readRecord returns nil if there is none.
func (b *Backend) readRecord(ctx context.Context, path string) (*stored, error) {
	var r *stored
	err := b.do(ctx, path, func(s *session) error {
		data, stat, err := s.conn.Get(path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		if isForeign(data) {
			return unreadable(path, errForeign)
		}
		r = new(stored)
		if json.Unmarshal(data, &r.note) != nil || r.Format != format || r.Version == "" || r.TTL < 0 {
			return unreadable(path, fmt.Errorf("it is no record of the format %d", format))
		}
		r.end = r.note.end(stat)
		return nil
	})
	if err != nil || r == nil {
		return nil, err
	}
	if r.end != 0 {
		err = b.readClock(ctx)
	}
	return r, err
}

// GetRecords reads the names of a set and then all records at once, with the server's clock. It deletes some of those
// that have expired.
func (b *Backend) GetRecords(ctx context.Context, prefix string) (list []backend.Record, now time.Time, err error) {
	set, id, ok := cutRecord(prefix)
	if !ok || id != "" {
		return nil, time.Time{}, notARecord(prefix)
	}
	found, err := b.readSet(ctx, b.path(set))
	if err == nil {
		err = b.readClock(ctx)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	ms, known := b.clock.now()
	if known {
		now = time.UnixMilli(ms)
	}
	var over []member
	for _, m := range found {
		if b.isOver(m.end) {
			over = append(over, m)
			continue
		}
		r := backend.Record{
			Key:     set + "/" + m.id,
			Version: versionOf(m.Version, m.end),
			Value:   m.Value,
		}
		if m.end != 0 {
			r.TTL = max(1, time.Duration(m.end-ms)*time.Millisecond)
		}
		list = append(list, r)
	}
	over = over[:min(len(over), expired)]
	atOnce(len(over), func(i int) {
		_ = b.drop(ctx, b.path(set)+"/"+nodeName(over[i].id), over[i].Version) // The next look tries again.
	})
	return list, now, nil
}

// member is a record of a set.
type member struct {
	stored

	id string
}

func (b *Backend) readSet(ctx context.Context, path string) ([]member, error) {
	var names []string
	err := b.do(ctx, path, func(s *session) (err error) {
		names, _, err = s.conn.Children(path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	records, errs := make([]*stored, len(names)), make([]error, len(names))
	atOnce(len(names), func(i int) { records[i], errs[i] = b.readRecord(ctx, path+"/"+names[i]) })
	var list []member
	for i, r := range records {
		if errors.Is(errs[i], errForeign) {
			continue
		}
		if errs[i] != nil {
			return nil, errs[i]
		}
		if id, ok := keyOf(names[i]); ok && r != nil {
			list = append(list, member{*r, id})
		}
	}
	return list, nil
}
