package consulleader

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
)

// reuse is how much longer than its lease a session lives, so that one whose last renewal is no older can be used as it
// is: the lease counts from the acquisition.
const reuse = 200 * time.Millisecond

// sessionName is what operators see of a session.
const sessionName = "leader"

// errClosed says that the backend was closed.
var errClosed = backend.WithKind(errors.New("the backend is closed"), backend.Misconfigured)

// session is a session that this backend created. It holds one key at a time.
type session struct {
	id    string
	ttl   time.Duration // of the lease that it is for
	delay time.Duration // the lock-delay

	mu      sync.Mutex
	renewed time.Time // an instant before the last renewal, or the creation, was sent
	tainted bool      // a request with it failed or was left behind, so it must not be used for another lease
}

// server is the TTL that the server counts with.
func (s *session) server() time.Duration { return min(s.ttl+reuse, maxTTL) }

// fresh reports whether a lease from now on ends before the session does. The monotonic clock stands still while the
// machine sleeps, so the wall clock counts too.
func (s *session) fresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	return max(now.Sub(s.renewed), now.Round(0).Sub(s.renewed.Round(0))) < s.server()-s.ttl
}

// past reports whether the server has ended the session by now.
func (s *session) past() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.renewed) > 3*s.server()
}

func (s *session) renewedAt(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.renewed) {
		s.renewed = at
	}
}

func (s *session) taint() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tainted = true
}

func (s *session) clean() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.tainted
}

// createSession makes a session without any health check, since a failing check would end it, and a lease with it, at
// any time.
func (b *Backend) createSession(ctx context.Context, ttl, delay time.Duration) (*session, error) {
	s := &session{ttl: ttl, delay: delay, renewed: time.Now()}
	// The client's own call sends nothing for a lock-delay of 0, and the server takes 15 s then.
	body := map[string]any{
		"Name": sessionName, "NodeChecks": []string{}, "Behavior": api.SessionBehaviorDelete,
		"TTL": s.server().String(), "LockDelay": delay.String(),
	}
	var created struct{ ID string }
	_, err := b.client.Raw().Write("/v1/session/create", body, &created, writeOptions(ctx))
	if err != nil {
		return nil, classify(ctx, err)
	}
	s.id = created.ID
	return s, nil
}

// renewSession moves the end of a session. It returns ErrLost if the server has no such session.
func (b *Backend) renewSession(ctx context.Context, s *session) error {
	sent := time.Now()
	entry, _, err := b.client.Session().Renew(s.id, writeOptions(ctx))
	if err != nil {
		s.taint()
		return classify(ctx, err)
	}
	if entry == nil {
		s.taint()
		return backend.ErrLost
	}
	s.renewedAt(sent)
	return nil
}

// destroySession ends a session; one that is gone is no error. A key that it holds is deleted, and delayed.
func (b *Backend) destroySession(ctx context.Context, s *session) error {
	_, err := b.client.Session().Destroy(s.id, writeOptions(ctx))
	return classify(ctx, err)
}

// retire ends a session that must not be used again. It frees a key that the session may hold first, which delays
// nobody, as the end of the session would.
func (b *Backend) retire(ctx context.Context, s *session, key string) error {
	if key != "" {
		_, err := b.transact(ctx, api.KVTxnOps{
			{Verb: api.KVCheckSession, Key: key, Session: s.id},
			{Verb: api.KVDelete, Key: key},
		})
		if _, refused := errors.AsType[*refusal](err); err != nil && !refused {
			return err
		}
	}
	return b.destroySession(ctx, s)
}

// retireAside is retire in the background.
func (b *Backend) retireAside(ctx context.Context, s *session, key string) {
	s.taint()
	b.house.do(ctx, func(ctx context.Context) {
		_ = b.retire(ctx, s, key) // A session that is not renewed ends by itself.
	})
}

// errNoResult is for what no server should answer.
var errNoResult = errors.New("a transaction without any result")

// transact runs operations on keys, all or none, of which at least one has a result: that of a check, or of a write. A
// *refusal says that the server did none.
func (b *Backend) transact(ctx context.Context, ops api.KVTxnOps) ([]*api.KVPair, error) {
	ok, answer, _, err := b.kv.Txn(ops, queryOptions(ctx))
	if err != nil {
		return nil, classify(ctx, err)
	}
	if !ok {
		r := &refusal{answer.Errors}
		return nil, backend.WithKind(r, r.kind())
	}
	if len(answer.Results) == 0 {
		return nil, errNoResult
	}
	return answer.Results, nil
}

// read returns the pair of a key, nil if there is none, as the newest leader of the servers has it.
func (b *Backend) read(ctx context.Context, key string) (*api.KVPair, error) {
	pair, _, err := b.kv.Get(key, queryOptions(ctx))
	return pair, classify(ctx, err)
}

// readProof is read with the proof that the servers' leader still is one.
func (b *Backend) readProof(ctx context.Context, key string) (*api.KVPair, error) {
	options := queryOptions(ctx)
	options.RequireConsistent = true
	pair, _, err := b.kv.Get(key, options)
	return pair, classify(ctx, err)
}

func writeOptions(ctx context.Context) *api.WriteOptions {
	return (&api.WriteOptions{}).WithContext(ctx)
}

func queryOptions(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{}).WithContext(ctx)
}
