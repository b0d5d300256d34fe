package etcdleader

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/goleader/leader/backend"
)

// voted starts a term, and lets the members seem to have voted since.
func voted(t *testing.T, b *Backend) (lease *term, old *pooled) {
	t.Helper()
	l, err := b.TryAcquire(t.Context(), backend.Request{Key: "job", Token: rand.Text(), TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	lease = l.(*term)
	old = lease.lease()
	if old.vote == 0 {
		t.Fatal("the number of the vote is not known")
	}
	old.vote--
	return lease, old
}

func renewed(t *testing.T, l *term) {
	t.Helper()
	if err := l.Renew(t.Context(), time.Hour); err != nil {
		t.Fatalf("Renew: %v", err)
	}
}

// wantUnder checks what lease of etcd the key of a term is under, and that the term knows.
func wantUnder(t *testing.T, l *term, want *pooled) {
	t.Helper()
	answer, err := l.backend.client.Get(t.Context(), l.key)
	if err != nil || len(answer.Kvs) != 1 || answer.Kvs[0].CreateRevision != l.fence {
		t.Fatalf("the key is %v, %v", answer, err)
	}
	if l.lease() != want || answer.Kvs[0].Lease != want.id {
		t.Errorf("the key is under lease %x, the term under %x, want %x", answer.Kvs[0].Lease, l.lease().id, want.id)
	}
}

// wantAllGone releases a term and checks that nothing is left of it but what is in the pool.
func wantAllGone(t *testing.T, l *term, dead ...*pooled) {
	t.Helper()
	if err := l.Release(t.Context(), 0); err != nil {
		t.Errorf("Release: %v", err)
	}
	if h, err := l.backend.Inspect(t.Context(), "job"); err != nil || !h.Free() {
		t.Errorf("after the release: %+v, %v", h, err)
	}
	for _, p := range dead {
		for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
			answer, err := l.backend.client.TimeToLive(t.Context(), clientv3.LeaseID(p.id))
			if err == nil && answer.TTL < 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("lease %x still lives: %v, %v", p.id, answer, err)
			}
		}
	}
}

func TestTerm_Renew_MovesTheKeyUnderANewLeaseAfterAVote(t *testing.T) {
	b, _ := startForgetful(t)
	l, old := voted(t, b)
	renewed(t, l)
	next := l.lease()
	if next == old {
		t.Fatal("the key is under the lease from before the vote")
	}
	wantUnder(t, l, next)
	renewed(t, l)
	wantUnder(t, l, next)
	wantAllGone(t, l, old)
	again, err := b.TryAcquire(t.Context(), backend.Request{Key: "job", Token: rand.Text(), TTL: time.Hour})
	if err != nil || again.(*term).lease() != next {
		t.Errorf("%v: the next acquisition does not use the new lease", err)
	}
}

func TestTerm_Renew_FindsTheKeyWhereAnUnansweredMoveHasPutIt(t *testing.T) {
	for what, isDone := range map[string]bool{"done": true, "not done": false} {
		b, f := startForgetful(t)
		l, old := voted(t, b)
		f.put(func(req any, call func() error) error {
			if _, isMove := req.(*pb.TxnRequest); !isMove {
				return call()
			}
			if isDone {
				_ = call()
			}
			return errors.New("no answer")
		})
		renewed(t, l)
		_, next := l.leases()
		if l.lease() != old || next == nil {
			t.Fatalf("%s: the term is under %+v, and moves to %+v", what, l.lease(), next)
		}
		f.put(nil)
		before := next.kept
		renewed(t, l)
		if !next.kept.After(before) {
			t.Errorf("%s: the lease that the key may be under was not kept alive", what)
		}
		wantUnder(t, l, next)
		wantAllGone(t, l, old, next) // as next had an unanswered request
	}
}

func TestTerm_Release_EndsAMoveThatIsUnderWay(t *testing.T) {
	b, f := startForgetful(t)
	l, _ := voted(t, b)
	var late *pb.TxnRequest
	f.put(func(req any, call func() error) error {
		move, ok := req.(*pb.TxnRequest)
		if !ok {
			return call()
		}
		late = move
		return errors.New("no answer")
	})
	renewed(t, l)
	_, next := l.leases()
	f.put(nil)
	wantAllGone(t, l, next)
	successor, err := b.TryAcquire(t.Context(), backend.Request{Key: "job", Token: rand.Text(), TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := clientv3.RetryKVClient(b.client).Txn(t.Context(), late); err == nil && answer.Succeeded {
		t.Error("the late move was done")
	}
	if err := successor.Renew(t.Context(), time.Hour); err != nil {
		t.Errorf("the successor: %v", err)
	}
}

func TestTerm_Renew_BesideAMove_IsNoLoss(t *testing.T) {
	b, f := startForgetful(t)
	l, old := voted(t, b)
	f.put(func(req any, call func() error) error {
		if r, ok := req.(*pb.RangeRequest); ok && string(r.Key) == l.key {
			f.put(nil)
			renewed(t, l) // which moves the key before the first renewal reads it
		}
		return call()
	})
	renewed(t, l)
	next := l.lease()
	if next == old {
		t.Error("the key was not moved")
	}
	wantUnder(t, l, next)
	wantAllGone(t, l, old)
}

func TestTerm_Renew_WhileALeaseIsGranted_IsNoLongerThanThatLease(t *testing.T) {
	b, f := startForgetful(t)
	l, _ := voted(t, b)
	lessor := &slowLessor{LeaseClient: b.leases.client, granted: make(chan struct{}), goOn: make(chan struct{})}
	b.leases.client = lessor
	moved := make(chan error, 1)
	go func() { moved <- l.Renew(t.Context(), time.Hour) }()
	<-lessor.granted
	sent := time.Now()
	f.put(nil)
	renewed(t, l)
	close(lessor.goOn)
	if err := <-moved; err != nil {
		t.Fatal(err)
	}
	wantUnder(t, l, l.lease())
	if kept := b.leases.keptAt(l.lease()); kept.Before(sent) {
		t.Errorf("the key is under a lease that was kept alive %v before the last renewal", sent.Sub(kept))
	}
}

// slowLessor holds up the answers to grants.
type slowLessor struct {
	pb.LeaseClient

	granted, goOn chan struct{}
}

func (s *slowLessor) LeaseGrant(
	ctx context.Context, in *pb.LeaseGrantRequest, opts ...grpc.CallOption,
) (*pb.LeaseGrantResponse, error) {
	answer, err := s.LeaseClient.LeaseGrant(ctx, in, opts...)
	close(s.granted)
	<-s.goOn
	return answer, err
}

func TestTerm_Renew_GivesUpADeadLeaseToMoveTo(t *testing.T) {
	b, f := startForgetful(t)
	l, old := voted(t, b)
	f.put(func(req any, call func() error) error {
		if _, isMove := req.(*pb.TxnRequest); isMove {
			return errors.New("no answer")
		}
		return call()
	})
	renewed(t, l)
	f.put(nil)
	_, dead := l.leases()
	if _, err := b.client.Revoke(t.Context(), clientv3.LeaseID(dead.id)); err != nil {
		t.Fatal(err)
	}
	renewed(t, l)
	if next := l.lease(); next == old || next == dead {
		t.Error("the key was not moved to a lease that lives")
	}
	wantUnder(t, l, l.lease())
}

func TestBackend_TryAcquire_UsesNoLeaseFromBeforeAVote(t *testing.T) {
	b, _ := startForgetful(t)
	take := func() *term {
		t.Helper()
		l, err := b.TryAcquire(t.Context(), backend.Request{Key: "job", Token: rand.Text(), TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return l.(*term)
	}
	first := take()
	used := first.lease()
	if err := first.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	// The answer to the acquisition tells of the vote.
	b.leases.mu.Lock()
	used.vote--
	b.leases.vote--
	b.leases.mu.Unlock()
	second := take()
	if second.lease() == used {
		t.Error("the key is under a lease from before the vote")
	}
	wantUnder(t, second, second.lease())
	fresh := second.lease()
	wantAllGone(t, second, used)
	// A keep-alive has told of it.
	b.leases.mu.Lock()
	fresh.vote--
	b.leases.mu.Unlock()
	third := take()
	if third.lease() == fresh || !third.byName { // which it is not once it was moved
		t.Error("a lease from before the vote was taken out of the pool")
	}
	wantAllGone(t, third, fresh)
}

func TestPool_Put_TakesNoLeaseFromBeforeAVote(t *testing.T) {
	b, _ := startForgetful(t)
	l, old := voted(t, b)
	wantAllGone(t, l, old)
}
