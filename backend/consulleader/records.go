package consulleader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
)

// PutRecord compares and stores in one transaction. A record with a TTL is held by a session of its own, so the server
// judges its end, up to one TTL late, and a TTL under 10 s is rounded up. Making the session is another request, and
// so is renewing it when this backend replaces what it has stored. A TTL over 24 h is kept as an instant, by the
// clients' clocks.
func (b *Backend) PutRecord(ctx context.Context, r backend.Record) (version string, err error) {
	put, err := b.newPut(ctx, r)
	if err != nil {
		return "", err
	}
	if err := b.holdRecord(ctx, put); err != nil {
		return "", err
	}
	for range conflicts {
		results, err := b.transact(ctx, put.ops())
		if err == nil {
			b.records.replace(ctx, b, put.key, put.session)
			return put.version(results[len(results)-1]), nil
		}
		refused, ok := errors.AsType[*refusal](err)
		if !ok {
			return "", err // The session may hold the record now, and ends with it.
		}
		if again, err := b.refusedPut(ctx, put, refused, err); !again {
			b.dropRecord(ctx, put)
			return "", err
		}
	}
	b.dropRecord(ctx, put)
	return "", errContended
}

// put is a record that is to be stored.
type put struct {
	backend.Record

	key     string // in Consul
	index   uint64 // of the version that it replaces, 0 for none
	end     time.Time
	session *session // that holds it; nil if none does
	own     bool     // the session holds the version before
}

func (b *Backend) newPut(ctx context.Context, r backend.Record) (*put, error) {
	key, err := b.recordKey(r.Key)
	if err != nil {
		return nil, err
	}
	if r.TTL < 0 {
		return nil, backend.WithKind(fmt.Errorf("a TTL of %v is negative", r.TTL), backend.Misconfigured)
	}
	p := &put{Record: r, key: key}
	if r.Version != "" {
		if p.index = parseVersion(r.Version); p.index == 0 {
			return nil, backend.ErrConflict
		}
	}
	if r.TTL > maxTTL {
		p.end = time.Now().Add(r.TTL)
	}
	return p, b.ready(ctx)
}

// holdRecord finds a session for a record with a TTL: that which holds the version before, if it is known, else a new
// one.
func (b *Backend) holdRecord(ctx context.Context, p *put) (err error) {
	if p.TTL == 0 || p.TTL > maxTTL {
		return nil
	}
	ttl := max(p.TTL, minTTL)
	if s := b.records.of(p.key); p.index != 0 && s != nil && s.ttl == ttl {
		err := b.renewSession(ctx, s)
		if err == nil {
			p.session, p.own = s, true
			return nil
		}
		if !errors.Is(err, backend.ErrLost) {
			return err
		}
	}
	p.session, err = b.pool.create(ctx, ttl, 0)
	return err
}

// ops replaces the version before, or nothing. What another session holds has to be deleted for that.
func (p *put) ops() api.KVTxnOps {
	write := &api.KVTxnOp{Verb: api.KVSet, Key: p.key, Value: p.encode()}
	if p.session != nil {
		write.Verb, write.Session = api.KVLock, p.session.id
	}
	if p.index == 0 {
		return api.KVTxnOps{{Verb: api.KVCheckNotExists, Key: p.key}, write}
	}
	check := &api.KVTxnOp{Verb: api.KVCheckIndex, Key: p.key, Index: p.index}
	if p.own {
		return api.KVTxnOps{check, write}
	}
	return api.KVTxnOps{check, {Verb: api.KVDelete, Key: p.key}, write}
}

// refusedPut decides what follows from a transaction that the server did not do.
func (b *Backend) refusedPut(ctx context.Context, p *put, why *refusal, err error) (again bool, _ error) {
	switch {
	case why.kind() == backend.Denied:
		return false, err
	case why.says(saysDead), p.own && why.says(saysHeld): // The session ended, or never held the record.
		p.own = false
		p.session, err = b.pool.create(ctx, p.session.ttl, 0)
		return err == nil, err
	case p.Version != "":
		return false, backend.ErrConflict
	}
	found, err := b.read(ctx, p.key)
	if err != nil || found == nil {
		return err == nil, err
	}
	there, err := decodeValue(found)
	if err == nil && !there.expired() {
		err = backend.ErrConflict
	}
	p.index = found.ModifyIndex
	return err == nil, err
}

// dropRecord ends the session of a record that was not stored.
func (b *Backend) dropRecord(ctx context.Context, p *put) {
	if p.session != nil && !p.own {
		b.retireAside(ctx, p.session, "")
	}
}

// GetRecords reads a set in one round trip. The store tells no time.
func (b *Backend) GetRecords(ctx context.Context, prefix string) (list []backend.Record, now time.Time, err error) {
	stored, err := b.setPrefix(prefix)
	if err == nil {
		err = b.ready(ctx)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	pairs, _, err := b.kv.List(stored, queryOptions(ctx))
	if err != nil {
		return nil, time.Time{}, classify(ctx, err)
	}
	for _, pair := range pairs {
		key, ok := b.recordOf(pair.Key)
		if !ok {
			continue
		}
		s, err := decodeValue(pair)
		switch {
		case err != nil:
			return nil, time.Time{}, err
		case s.expired():
			b.house.do(ctx, func(ctx context.Context) { _, _ = b.deleteIf(ctx, pair.Key, pair.ModifyIndex) })
		default:
			list = append(list, backend.Record{Key: key, Version: s.version(pair), Value: s.value, TTL: s.left()})
		}
	}
	return list, time.Time{}, nil
}

// DeleteRecord compares and deletes in one transaction, or finds in another request why it may not.
func (b *Backend) DeleteRecord(ctx context.Context, r backend.Record) error {
	key, err := b.recordKey(r.Key)
	if err == nil {
		err = b.ready(ctx)
	}
	if err != nil {
		return err
	}
	if index := parseVersion(r.Version); index != 0 {
		_, err := b.transact(ctx, api.KVTxnOps{
			{Verb: api.KVCheckIndex, Key: key, Index: index}, {Verb: api.KVDelete, Key: key},
		})
		refused, ok := errors.AsType[*refusal](err)
		switch {
		case err == nil:
			b.records.replace(ctx, b, key, nil)
			return nil
		case !ok, refused.kind() == backend.Denied:
			return err
		}
	}
	found, err := b.readProof(ctx, key)
	if err != nil || found == nil {
		return err
	}
	if s, err := decodeValue(found); err == nil && s.expired() {
		return nil
	}
	return backend.ErrConflict
}
