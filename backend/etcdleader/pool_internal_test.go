package etcdleader

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
	"unsafe"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

const patience = 30 * time.Second

var errDown = errors.New("down")

// fakeLeases is a server of leases that grants what is asked for, and counts.
type fakeLeases struct {
	mu       sync.Mutex
	granted  []int64
	revoked  []int64
	renewed  map[int64]int
	deaf     map[int64]bool // their keep-alives are not answered
	noRevoke bool
	noGrant  bool
	streams  int
}

func newFake() *fakeLeases { return &fakeLeases{renewed: map[int64]int{}, deaf: map[int64]bool{}} }

func (f *fakeLeases) LeaseGrant(
	_ context.Context, in *pb.LeaseGrantRequest, _ ...grpc.CallOption,
) (*pb.LeaseGrantResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.granted = append(f.granted, in.ID)
	if f.noGrant {
		return nil, errDown
	}
	return &pb.LeaseGrantResponse{ID: in.ID, TTL: in.TTL}, nil
}

func (f *fakeLeases) LeaseRevoke(
	_ context.Context, in *pb.LeaseRevokeRequest, _ ...grpc.CallOption,
) (*pb.LeaseRevokeResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.noRevoke {
		return nil, errDown
	}
	f.revoked = append(f.revoked, in.ID)
	return &pb.LeaseRevokeResponse{}, nil
}

func (f *fakeLeases) LeaseKeepAlive(
	ctx context.Context, _ ...grpc.CallOption,
) (pb.Lease_LeaseKeepAliveClient, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams++
	return &fakeStream{ctx: ctx, server: f, answers: make(chan int64, 100)}, nil
}

func (f *fakeLeases) LeaseTimeToLive(
	context.Context, *pb.LeaseTimeToLiveRequest, ...grpc.CallOption,
) (*pb.LeaseTimeToLiveResponse, error) {
	return nil, errDown
}

func (f *fakeLeases) LeaseLeases(
	context.Context, *pb.LeaseLeasesRequest, ...grpc.CallOption,
) (*pb.LeaseLeasesResponse, error) {
	return nil, errDown
}

func (f *fakeLeases) count(what func() int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return what()
}

// fakeStream answers in order, and so not at all behind one that it does not answer.
type fakeStream struct {
	ctx     context.Context //nolint:containedctx // as in grpc's
	server  *fakeLeases
	answers chan int64
}

func (s *fakeStream) Send(in *pb.LeaseKeepAliveRequest) error {
	s.answers <- in.ID
	return nil
}

func (s *fakeStream) Recv() (*pb.LeaseKeepAliveResponse, error) {
	select {
	case id := <-s.answers:
		s.server.mu.Lock()
		deaf := s.server.deaf[id]
		s.server.renewed[id]++
		s.server.mu.Unlock()
		if !deaf {
			return &pb.LeaseKeepAliveResponse{ID: id, TTL: 2}, nil
		}
		<-s.ctx.Done()
	case <-s.ctx.Done():
	}
	return nil, s.ctx.Err()
}

func (s *fakeStream) Header() (metadata.MD, error) { return nil, nil }
func (s *fakeStream) Trailer() metadata.MD         { return nil }
func (s *fakeStream) CloseSend() error             { return nil }
func (s *fakeStream) Context() context.Context     { return s.ctx }
func (s *fakeStream) SendMsg(any) error            { return nil }
func (s *fakeStream) RecvMsg(any) error            { return nil }

func fakePool(t *testing.T, f *fakeLeases) *pool {
	t.Helper()
	k := newPool(&lessor{client: f, alive: newKeepAliver(f)})
	t.Cleanup(k.close)
	return k
}

func taken(t *testing.T, k *pool) *pooled {
	t.Helper()
	p, err := k.take(t.Context(), 1500*time.Millisecond) // which makes 2 s
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func soon(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}

func TestPool_NeitherUsesNorRenewsAPoisonedLease(t *testing.T) {
	f := newFake()
	f.noRevoke = true // so that it stays
	k := fakePool(t, f)
	p, other := taken(t, k), taken(t, k)
	k.poison(t.Context(), p, "token")
	k.put(t.Context(), other)
	for range 100 {
		q := taken(t, k)
		if q == p {
			t.Fatal("the poisoned lease was used again")
		}
		k.put(t.Context(), q)
	}
	soon(t, "the idle lease is kept alive", func() bool {
		return f.count(func() int { return f.renewed[other.id] }) >= 3
	})
	if n := f.count(func() int { return f.renewed[p.id] }); n != 0 {
		t.Errorf("the poisoned lease was renewed %d times", n)
	}
	f.count(func() int { f.noRevoke = false; return 0 })
	soon(t, "the poisoned lease is revoked", func() bool { return f.count(func() int { return len(f.revoked) }) > 0 })
	if f.revoked[0] != p.id {
		t.Errorf("lease %x was revoked, want %x", f.revoked[0], p.id)
	}
}

func TestPool_PoisonsALeaseWithAnUnansweredKeepAlive(t *testing.T) {
	f := newFake()
	k := fakePool(t, f)
	p := taken(t, k)
	f.deaf[p.id] = true
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := k.renew(ctx, p).wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("renew: %v", err)
	}
	k.put(t.Context(), p)
	soon(t, "it is revoked", func() bool { return f.count(func() int { return len(f.revoked) }) == 1 })
	if q := taken(t, k); q == p {
		t.Error("it was used again")
	}
}

// The answer of a grant was lost, or it is still on its way.
func TestPool_RevokesWhatAnUnansweredGrantMayHaveMade(t *testing.T) {
	f := newFake()
	f.noGrant = true
	k := fakePool(t, f)
	if _, err := k.take(t.Context(), time.Second); !errors.Is(err, errDown) {
		t.Fatalf("take: %v", err)
	}
	soon(t, "it is revoked", func() bool { return f.count(func() int { return len(f.revoked) }) == 1 })
	if f.revoked[0] != f.granted[0] {
		t.Errorf("lease %x was revoked, want %x", f.revoked[0], f.granted[0])
	}
}

func TestPool_RemembersAnUnansweredGrantForAMinute(t *testing.T) {
	f := newFake()
	f.noGrant, f.noRevoke = true, true
	k := fakePool(t, f)
	if _, err := k.take(t.Context(), 24*time.Hour); !errors.Is(err, errDown) {
		t.Fatalf("take: %v", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if left := time.Until(k.dying[0].until); left > idleTime {
		t.Errorf("it is remembered for %v", left)
	}
}

func TestPool_Close_RevokesWhatIsBeingKeptAlive(t *testing.T) {
	f := newFake()
	k := fakePool(t, f)
	p := taken(t, k)
	f.deaf[p.id] = true
	k.put(t.Context(), p)
	soon(t, "it is kept alive", func() bool { return f.count(func() int { return f.renewed[p.id] }) > 0 })
	k.close()
	if len(f.revoked) != 1 || f.revoked[0] != p.id {
		t.Errorf("leases %x were revoked, want %x", f.revoked, p.id)
	}
}

func TestPool_KeepsAtMost64Idle(t *testing.T) {
	f := newFake()
	k := fakePool(t, f)
	var list []*pooled
	for range maxIdle + 10 {
		list = append(list, taken(t, k))
	}
	for _, p := range list {
		k.put(t.Context(), p)
	}
	soon(t, "the others are revoked", func() bool { return f.count(func() int { return len(f.revoked) }) == 10 })
	k.mu.Lock()
	size := k.size
	k.mu.Unlock()
	if size != maxIdle {
		t.Errorf("%d idle leases, want %d", size, maxIdle)
	}
	k.close()
	if n := len(f.revoked); n != maxIdle+10 {
		t.Errorf("%d leases were revoked in the end, want all %d", n, maxIdle+10)
	}
}

func TestPool_RevokesWhatIsIdleForAMinute(t *testing.T) {
	f := newFake()
	k := fakePool(t, f)
	p := taken(t, k)
	k.put(t.Context(), p)
	k.mu.Lock()
	p.idle = time.Now().Add(-idleTime)
	k.next = time.Now().Add(time.Hour)
	k.keep(t.Context(), time.Now())
	k.mu.Unlock()
	soon(t, "it is revoked", func() bool { return f.count(func() int { return len(f.revoked) }) == 1 })
	soon(t, "the keeper has ended", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.stop == nil
	})
}

func TestPooled_LastsByTheClockThatHasGoneOnMore(t *testing.T) {
	now := time.Now()
	p := &pooled{ttl: 2 * time.Second, kept: now.Add(-300 * time.Millisecond)}
	if !p.lasts(now, 1500*time.Millisecond) || p.lasts(now, 1800*time.Millisecond) {
		t.Error("wrong by the monotonic clock")
	}
	p.kept = beforeSleep(now, time.Second)
	if now.Sub(p.kept) != 0 || p.lasts(now, 1500*time.Millisecond) {
		t.Error("wrong by the wall clock")
	}
}

// beforeSleep returns an instant before a sleep of the machine that lasted until now, and that the monotonic clock has
// missed. There is no other way to make such a time.
func beforeSleep(now time.Time, sleep time.Duration) time.Time {
	before := now.Add(-sleep)
	monotonic := &(*struct { // the layout of a time.Time
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&before)).ext
	*monotonic += int64(sleep)
	return before
}

func TestKeepAliver_LeavesAStreamThatDoesNotAnswer(t *testing.T) {
	f := newFake()
	k := newKeepAliver(f)
	t.Cleanup(k.close)
	if answer, err := k.send(t.Context(), 1).wait(t.Context()); err != nil || answer.TTL != 2 {
		t.Fatalf("keep-alive: %v, %v", answer, err)
	}
	f.count(func() int { f.deaf[2] = true; return 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	stuck := k.send(ctx, 2)
	behind := k.send(t.Context(), 1) // on the same stream
	if _, err := stuck.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a keep-alive without an answer: %v", err)
	}
	if _, err := k.send(t.Context(), 1).wait(t.Context()); err != nil {
		t.Errorf("a keep-alive on another stream: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := behind.wait(ctx); err == nil {
		t.Error("a keep-alive behind one without an answer was answered")
	}
	if n := f.count(func() int { return f.streams }); n != 2 {
		t.Errorf("%d streams, want 2", n)
	}
	soon(t, "the stream that nobody waits for has ended", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.all) == 1
	})
}
