package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/testserver"
)

// record looks at what the driver sends for a term of key.
func (e *Etcd) record(t testserver.TB, key string) etcdTerm {
	t.Helper()
	var rec etcdRecorder
	driver := e.driver(t, e.dial(t, grpc.WithChainUnaryInterceptor(rec.intercept)))
	token := rand.Text()
	once := func(token string) {
		l, err := driver.TryAcquire(t.Context(), backend.Request{Key: key, Token: token, Owner: owner, TTL: lease})
		if err == nil {
			err = l.Release(t.Context(), 0)
		}
		if err != nil {
			t.Fatalf("record a term: %v", err)
		}
	}
	once(rand.Text()) // makes a lease
	rec.forget()
	once(token)
	term, err := rec.term(token)
	if err != nil {
		t.Fatalf("what the driver sends for a term: %v", err)
	}
	granted, err := e.client.Grant(t.Context(), sharedLease)
	if err != nil {
		t.Fatalf("%v", err)
	}
	term.lease = granted.ID
	return term
}

// etcdRecorder keeps all requests but those that are sent over streams.
type etcdRecorder struct {
	mu   sync.Mutex
	list []any
}

func (r *etcdRecorder) intercept(ctx context.Context, method string, request, answer any, connection *grpc.ClientConn,
	next grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	r.mu.Lock()
	r.list = append(r.list, request)
	r.mu.Unlock()
	return next(ctx, method, request, answer, connection, opts...)
}

func (r *etcdRecorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = nil
}

func (r *etcdRecorder) sent() []any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// term is what was sent, if it is what [etcdTerm] sends.
func (r *etcdRecorder) term(token string) (etcdTerm, error) {
	sent := r.sent()
	if len(sent) != 2 {
		return etcdTerm{}, errors.New("it is not two requests")
	}
	acquire, isTxn := sent[0].(*pb.TxnRequest)
	release, isDeletion := sent[1].(*pb.DeleteRangeRequest)
	if !isTxn || !isDeletion {
		return etcdTerm{}, errors.New("it is not a transaction and a deletion")
	}
	s := etcdTerm{token: token}
	if len(acquire.Success) != 1 || acquire.Success[0].GetRequestPut() == nil {
		return s, errors.New("the acquisition is not one put")
	}
	if len(acquire.Compare) != 1 || len(acquire.Failure) != 1 || acquire.Failure[0].GetRequestRange() == nil {
		return s, errors.New("the acquisition has other parts")
	}
	put, compare, look := acquire.Success[0].GetRequestPut(), acquire.Compare[0], acquire.Failure[0].GetRequestRange()
	s.place, s.value, s.lease = string(compare.Key), string(put.Value), clientv3.LeaseID(put.Lease)
	end := clientv3.GetPrefixRangeEnd(s.place)
	switch {
	case strings.Count(s.value, token) != 1:
		return s, errors.New("the token is not in the value")
	case s.lease == 0 || string(put.Key) != s.key() || string(release.Key) != s.key() || len(release.RangeEnd) > 0:
		return s, errors.New("the key is not the lease's")
	case compare.Target != pb.Compare_CREATE || string(compare.RangeEnd) != end,
		string(look.Key) != s.place || string(look.RangeEnd) != end:
		return s, errors.New("the acquisition looks for something else")
	}
	return s, nil
}
