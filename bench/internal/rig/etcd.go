package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/etcdleader"
	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/internal/testserver"
)

// sharedLease is how many seconds the lease lasts that all raw acquisitions share: longer than anything that is
// measured.
const sharedLease = 24 * 60 * 60

// Etcd is a server with everybody who works on it.
type Etcd struct {
	server *testserver.Server
	client *clientv3.Client // of all, so that nobody has another connection
}

// NewEtcd starts an etcd, which waits for its disk; one that [testserver.EtcdURLEnv] names is taken as it is.
func NewEtcd(t testserver.TB) *Etcd {
	t.Helper()
	e := &Etcd{server: testserver.Etcd(t)}
	e.client = e.dial(t)
	return e
}

func (e *Etcd) dial(t testserver.TB, options ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	u, err := url.Parse(e.server.URL())
	if err != nil {
		t.Fatalf("%v", err)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{u.Host}, Username: u.User.Username(), Password: e.server.Password(),
		DialTimeout: patience, DialOptions: options, Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (e *Etcd) driver(t testserver.TB, client *clientv3.Client) *etcdleader.Backend {
	t.Helper()
	d := etcdleader.New(client, nil)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// Run returns a RunIfLeader.
func (e *Etcd) Run(t testserver.TB) Op { return run(newElector(t, e.driver(t, e.client)), "run") }

// Skip returns a RunIfLeader while another holds the name.
func (e *Etcd) Skip(t testserver.TB) Op {
	hold(t, newElector(t, e.driver(t, e.client)), "skip")
	return skip(newElector(t, e.driver(t, e.client)), "skip", leader.Contended)
}

// Handoff returns the hand-off between two electors, each with a client of its own.
func (e *Etcd) Handoff(t testserver.TB) contest.Way {
	return newRelay(t, e.driver(t, e.dial(t)), e.driver(t, e.dial(t)), 0).pass
}

// Hold lets one elector renew n leases for the time d.
func (e *Etcd) Hold(t testserver.TB, n int, d time.Duration) (Held, error) {
	return holdMany(t, e.driver(t, e.dial(t)), n, d)
}

// Floor returns the two requests of the driver for a RunIfLeader, by the raw client, on one lease for all.
func (e *Etcd) Floor(t testserver.TB) Op {
	term := e.record(t, "floor")
	return func(ctx context.Context) error {
		if err := term.acquire(ctx, e.client, rand.Text()); err != nil {
			return err
		}
		return term.release(ctx, e.client)
	}
}

// SkipFloor returns the transaction of the driver for an acquisition, while another holds the key, by the raw client.
func (e *Etcd) SkipFloor(t testserver.TB) Op {
	term := e.record(t, "skip floor")
	hold(t, newElector(t, e.driver(t, e.client)), "skip floor")
	return func(ctx context.Context) error {
		if err := term.acquire(ctx, e.client, rand.Text()); !errors.Is(err, errRefused) {
			return errors.Join(errors.New("was not refused"), err)
		}
		return nil
	}
}

// RawHandoff returns the hand-off by raw clients and the driver's own requests: one releases; another, who watches as
// the driver does, hears of it and acquires. The time ends with the answer.
func (e *Etcd) RawHandoff(t testserver.TB) contest.Way {
	t.Helper()
	term := e.record(t, "raw hand-off")
	from, to := e.dial(t), e.dial(t)
	changes := to.Watch(t.Context(), term.place, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	if answer := <-changes; !answer.Created {
		t.Fatalf("the watch was not created: %v", answer.Err())
	}
	return func(ctx context.Context) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := term.acquire(ctx, from, rand.Text()); err != nil {
			return 0, err
		}
		took, err := pass(func() (err error) {
			if err = awaitDelete(ctx, changes); err == nil {
				err = term.acquire(ctx, to, rand.Text())
			}
			return err
		}, func() error { return term.release(ctx, from) })
		if err != nil {
			return 0, err
		}
		return took, errors.Join(term.release(ctx, to), awaitDelete(ctx, changes))
	}
}

func awaitDelete(ctx context.Context, changes clientv3.WatchChan) error {
	for {
		select {
		case answer, ok := <-changes:
			if err := answer.Err(); !ok || err != nil {
				return errors.Join(errors.New("the watch has ended"), err)
			}
			for _, event := range answer.Events {
				if event.Type == clientv3.EventTypeDelete {
					return nil
				}
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// etcdTerm is what the driver sends to acquire and to release a key, with another lease under it.
type etcdTerm struct {
	place string // what the key begins with
	value string
	token string // that is in the value
	lease clientv3.LeaseID
}

// key is that of a lease.
func (s *etcdTerm) key() string { return s.place + strconv.FormatInt(int64(s.lease), 16) }

func (s *etcdTerm) acquire(ctx context.Context, client *clientv3.Client, token string) error {
	value := strings.Replace(s.value, s.token, token, 1)
	answer, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(s.place), "=", 0).WithPrefix()).
		Then(clientv3.OpPut(s.key(), value, clientv3.WithLease(s.lease))).
		Else(clientv3.OpGet(s.place, clientv3.WithPrefix())).
		Commit()
	if err == nil && !answer.Succeeded {
		err = errRefused
	}
	return err
}

func (s *etcdTerm) release(ctx context.Context, client *clientv3.Client) error {
	answer, err := client.Delete(ctx, s.key())
	if err == nil && answer.Deleted == 0 {
		err = errRefused
	}
	return err
}
