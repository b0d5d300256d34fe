package etcdleader

import (
	"context"
	"crypto/rand"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/testserver"
)

// forgetful answers keep-alives for a while as a server does that does not know the lease, or not yet.
type forgetful struct {
	pb.LeaseClient

	forgets atomic.Bool
	looked  chan struct{} // has a value when a read was answered
	before  func()        // called before an answer that forgets; may be nil
	removes chan func()   // if not nil it gets each deletion, which waits until what it got was called
	between atomic.Pointer[meddler]
}

func (f *forgetful) intercept(
	ctx context.Context, method string, req, reply any, on *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if _, ok := req.(*pb.DeleteRangeRequest); ok && f.removes != nil {
		sent := make(chan struct{})
		f.removes <- func() { close(sent) }
		<-sent
	}
	err := f.meddle(req, func() error { return call(ctx, method, req, reply, on, opts...) })
	if _, ok := req.(*pb.RangeRequest); ok {
		select {
		case f.looked <- struct{}{}:
		default:
		}
	}
	return err
}

// meddler makes a call, or does not, and says what came of it.
type meddler func(req any, call func() error) error

func (f *forgetful) meddle(req any, call func() error) error {
	if m := f.between.Load(); m != nil {
		return (*m)(req, call)
	}
	return call()
}

// put puts a meddler between the driver and the server; nil takes it away.
func (f *forgetful) put(m meddler) {
	if m == nil {
		f.between.Store(nil)
		return
	}
	f.between.Store(&m)
}

func (f *forgetful) LeaseKeepAlive(
	ctx context.Context, opts ...grpc.CallOption,
) (pb.Lease_LeaseKeepAliveClient, error) {
	s, err := f.LeaseClient.LeaseKeepAlive(ctx, opts...)
	return &forgetfulStream{s, f}, err
}

type forgetfulStream struct {
	pb.Lease_LeaseKeepAliveClient

	server *forgetful
}

func (s *forgetfulStream) Recv() (*pb.LeaseKeepAliveResponse, error) {
	answer, err := s.Lease_LeaseKeepAliveClient.Recv()
	if err == nil && s.server.forgets.Load() {
		if s.server.before != nil {
			s.server.before()
		}
		answer.TTL = 0
	}
	return answer, err
}

func startForgetful(t *testing.T) (*Backend, *forgetful) {
	t.Helper()
	f := &forgetful{looked: make(chan struct{}, 1)}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{testserver.Etcd(t).Addr()}, DialTimeout: patience, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(f.intercept)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	b := New(client, &Options{Prefix: "leader-" + rand.Text() + "/"})
	f.LeaseClient = clientv3.RetryLeaseClient(client)
	b.leases = newPool(&lessor{client: f, alive: newKeepAliver(f)})
	t.Cleanup(func() { _ = b.Close() })
	return b, f
}

func TestTerm_Renew_IsLostOnlyWhenTheKeyIsGone(t *testing.T) {
	b, f := startForgetful(t)
	lease, err := b.TryAcquire(t.Context(), backend.Request{Key: "job", Token: rand.Text(), TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	f.forgets.Store(true)
	if err := lease.Renew(t.Context(), time.Hour); err == nil || errors.Is(err, backend.ErrLost) {
		t.Errorf("a lease that is said to be dead, under a key that is there: %v", err)
	}
	f.forgets.Store(false)
	if err := lease.Renew(t.Context(), time.Hour); err != nil {
		t.Errorf("the next renewal: %v", err)
	}
	if err := lease.Release(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if h, err := b.Inspect(t.Context(), "job"); err != nil || !h.Free() {
		t.Errorf("after the release: %+v, %v", h, err)
	}
}

func TestTerm_Renew_IsLostWhenAReleaseHasEndedTheLease(t *testing.T) {
	b, f := startForgetful(t)
	lease, err := b.TryAcquire(t.Context(), backend.Request{Key: "job", Token: rand.Text(), TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	f.before = func() {
		<-f.looked // and found the key
		if err := lease.Release(context.WithoutCancel(t.Context()), 0); err != nil {
			t.Error(err)
		}
	}
	f.forgets.Store(true)
	if err := lease.Renew(t.Context(), time.Hour); !errors.Is(err, backend.ErrLost) {
		t.Errorf("a renewal beside a release: %v, want ErrLost", err)
	}
}

// The client would send a request again after such an answer, and the first may still be on its way.
func TestBackend_Requests_AreSentOnce(t *testing.T) {
	for _, code := range []codes.Code{codes.DeadlineExceeded, codes.Canceled} {
		b, f := startForgetful(t)
		var sent int
		answerLate := func(r any) {
			sent = 0
			f.put(func(req any, call func() error) error {
				if reflect.TypeOf(req) != reflect.TypeOf(r) {
					return call()
				}
				sent++
				return errors.Join(call(), status.Error(code, "by something between"))
			})
		}
		check := func(what string, err error) {
			t.Helper()
			if sent != 1 || backend.KindOf(err) != backend.Unavailable {
				t.Errorf("%s: sent %d times, with error %v of kind %v", what, sent, err, backend.KindOf(err))
			}
			f.put(nil)
		}
		req := backend.Request{Key: "job", Token: rand.Text(), TTL: time.Hour}
		answerLate(&pb.TxnRequest{})
		_, err := b.TryAcquire(t.Context(), req)
		check("an acquisition", err)
		if err := b.Abandon(t.Context(), req); err != nil { // It has the key, which a repeated attempt would move.
			t.Fatal(err)
		}
		lease, err := b.TryAcquire(t.Context(), backend.Request{Key: "job", Token: rand.Text(), TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		used := lease.(*term).lease()
		answerLate(&pb.DeleteRangeRequest{})
		check("a release", lease.Release(t.Context(), 0))
		if err := lease.Release(t.Context(), 0); err != nil {
			t.Error(err)
		}
		next, err := b.TryAcquire(t.Context(), backend.Request{Key: "job", Token: rand.Text(), TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if next.(*term).lease() == used {
			t.Error("the lease with an unanswered release was used again")
		}
	}
}

func TestBackend_History_IsShortAfterACompaction(t *testing.T) {
	b, _ := startForgetful(t)
	history := func() int64 {
		status, err := b.client.Status(t.Context(), b.client.Endpoints()[0])
		if err != nil {
			t.Fatal(err)
		}
		return b.history(t.Context(), status)
	}
	answer, err := b.client.Put(t.Context(), "key", "value")
	if err != nil {
		t.Fatal(err)
	}
	if got := history(); got != answer.Header.Revision {
		t.Errorf("%d revisions, want %d", got, answer.Header.Revision)
	}
	if _, err := b.client.Compact(t.Context(), answer.Header.Revision); err != nil {
		t.Fatal(err)
	}
	if got := history(); got != 0 {
		t.Errorf("%d revisions after a compaction", got)
	}
}

// The name of the key comes from its lease, so a lease must not serve again while a release is on its way.
func TestTerm_Release_ThatComesLateEndsNoOther(t *testing.T) {
	b, f := startForgetful(t)
	first, err := b.TryAcquire(t.Context(), backend.Request{Key: "job", Token: rand.Text(), TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	f.removes = make(chan func())
	ended := make(chan error, 2)
	for range cap(ended) {
		go func() { ended <- first.Release(t.Context(), 0) }()
	}
	now, late := <-f.removes, <-f.removes
	now()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	next, err := b.TryAcquire(t.Context(), backend.Request{Key: "job", Token: rand.Text(), TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	late()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := first.Release(t.Context(), 0); err != nil { // once more
		t.Error(err)
	}
	if err := next.Renew(t.Context(), time.Hour); err != nil {
		t.Errorf("the next lease: %v", err)
	}
	if h, err := b.Inspect(t.Context(), "job"); err != nil || h.Fence != next.Fence() {
		t.Errorf("the holder is %+v, %v, want fence %d", h, err, next.Fence())
	}
}

func TestBackend_TryAcquireSlot_HasOneSlotWhenALeaseIsSaidToBeDead(t *testing.T) {
	const n, ttl = 100, time.Hour - slack
	b, f := startForgetful(t)
	lease, err := b.TryAcquire(t.Context(), backend.Request{Key: "warm-up", Token: rand.Text(), TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	b.leases.mu.Lock()
	for _, p := range b.leases.idle[seconds(ttl+slack)] {
		p.kept = p.kept.Add(-time.Second) // so that it needs a keep-alive
	}
	b.leases.mu.Unlock()
	f.forgets.Store(true)
	req := backend.Request{Key: "group", Token: rand.Text(), TTL: ttl}
	if _, _, err := b.TryAcquireSlot(t.Context(), req, n); err == nil || errors.Is(err, backend.ErrLost) {
		t.Errorf("the first attempt: %v", err)
	}
	f.forgets.Store(false)
	if _, _, err := b.TryAcquireSlot(t.Context(), req, n); err != nil {
		t.Errorf("the next attempt: %v", err)
	}
	answer, err := b.client.Get(t.Context(), b.prefix+"group#", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || answer.Count != 1 {
		t.Errorf("the token has %v, %v, want one slot", answer, err)
	}
}
