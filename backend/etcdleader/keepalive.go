package etcdleader

import (
	"context"
	"errors"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// streamIdle is how long a stream without requests stays open.
const streamIdle = time.Minute

var errStreamEnded = errors.New("the stream of keep-alives has ended")

// keepAliver sends keep-alives over one stream. The server answers them one after another, so one that has to wait, for
// a new leader perhaps, holds up those behind it; hence a stream on which an answer is overdue gets no more requests.
type keepAliver struct {
	client pb.LeaseClient

	mu     sync.Mutex
	stream *aliveStream // for the next request; nil if there is none
	all    map[*aliveStream]struct{}
	closed bool

	running sync.WaitGroup
}

func newKeepAliver(client pb.LeaseClient) *keepAliver {
	return &keepAliver{client: client, all: map[*aliveStream]struct{}{}}
}

// aliveStream is one stream. Its fields are guarded by the keepAliver's mutex.
type aliveStream struct {
	cancel  context.CancelFunc
	queue   []int64       // requests that have not been sent yet
	signal  chan struct{} // tells the sender of them
	waiting map[int64][]*aliveCall
	calls   int // that wait for an answer
	retired bool
	idle    *time.Timer
}

// aliveCall is one keep-alive.
type aliveCall struct {
	owner  *keepAliver
	stream *aliveStream // nil after the keepAliver was closed
	id     int64
	left   bool          // by its caller
	done   chan struct{} // closed when answer and err are set
	answer *pb.LeaseKeepAliveResponse
	err    error
}

// send asks for a keep-alive without waiting.
func (k *keepAliver) send(ctx context.Context, id int64) *aliveCall {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := &aliveCall{owner: k, id: id, done: make(chan struct{})}
	if k.closed {
		return c
	}
	if k.stream == nil {
		k.stream = k.open(ctx)
	}
	s := k.stream
	c.stream = s
	s.idle.Stop()
	s.calls++
	s.waiting[id] = append(s.waiting[id], c)
	s.queue = append(s.queue, id)
	select {
	case s.signal <- struct{}{}:
	default:
	}
	return c
}

// wait returns the answer. After an error other than that the lease is dead, the outcome is unknown.
func (c *aliveCall) wait(ctx context.Context) (*pb.LeaseKeepAliveResponse, error) {
	if c.stream == nil {
		return c.owner.alone(ctx, c.id)
	}
	select {
	case <-c.done:
		return c.answer, c.err
	case <-ctx.Done():
		c.owner.overdue(c)
		return nil, ctx.Err()
	}
}

// alone sends a keep-alive over a stream of its own, which ends with it.
func (k *keepAliver) alone(ctx context.Context, id int64) (*pb.LeaseKeepAliveResponse, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	stream, err := k.client.LeaseKeepAlive(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: id}); err != nil {
		return nil, err
	}
	answer, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	return answer, errorIn(answer)
}

func errorIn(answer *pb.LeaseKeepAliveResponse) error {
	if answer.TTL <= 0 {
		return rpctypes.ErrLeaseNotFound
	}
	return nil
}

func (c *aliveCall) end(answer *pb.LeaseKeepAliveResponse, err error) {
	c.answer, c.err = answer, err
	close(c.done)
}

// open starts a stream that outlives ctx. k.mu is held.
func (k *keepAliver) open(ctx context.Context) *aliveStream {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &aliveStream{cancel: cancel, signal: make(chan struct{}, 1), waiting: map[int64][]*aliveCall{}}
	s.idle = time.AfterFunc(streamIdle, func() { k.retire(s) })
	k.all[s] = struct{}{}
	k.running.Go(func() {
		err := k.run(clientv3.WithRequireLeader(ctx), s)
		cancel()
		k.fail(s, err)
	})
	return s
}

// run opens the stream and sends what is asked for, until the stream ends.
func (k *keepAliver) run(ctx context.Context, s *aliveStream) error {
	stream, err := k.client.LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	k.running.Go(func() { ended <- k.receive(stream, s) })
	for {
		select {
		case <-s.signal:
			for _, id := range k.unsent(s) {
				if stream.Send(&pb.LeaseKeepAliveRequest{ID: id}) != nil {
					return <-ended // which knows why
				}
			}
		case err := <-ended:
			return err
		}
	}
}

func (k *keepAliver) unsent(s *aliveStream) []int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	ids := s.queue
	s.queue = nil
	return ids
}

func (k *keepAliver) receive(stream pb.Lease_LeaseKeepAliveClient, s *aliveStream) error {
	for {
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		k.answer(s, answer)
	}
}

// answer ends the oldest call that waits for it.
func (k *keepAliver) answer(s *aliveStream, answer *pb.LeaseKeepAliveResponse) {
	k.mu.Lock()
	defer k.mu.Unlock()
	calls := s.waiting[answer.ID]
	if len(calls) == 0 {
		return
	}
	if s.waiting[answer.ID] = calls[1:]; len(calls) == 1 {
		delete(s.waiting, answer.ID)
	}
	c := calls[0]
	c.end(answer, errorIn(answer))
	if !c.left {
		k.settled(s)
	}
}

// settled counts a call that needs the stream no more. k.mu is held.
func (k *keepAliver) settled(s *aliveStream) {
	s.calls--
	switch {
	case s.calls > 0:
	case s.retired:
		s.cancel()
	default:
		s.idle.Reset(streamIdle)
	}
}

// overdue lets later calls take another stream. The call stays in line, because its answer may still come.
func (k *keepAliver) overdue(c *aliveCall) {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-c.done:
		return
	default:
	}
	c.left = true
	k.detach(c.stream)
	k.settled(c.stream)
}

// retire closes a stream that nobody has used for long.
func (k *keepAliver) retire(s *aliveStream) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.calls == 0 {
		k.detach(s)
		s.cancel()
	}
}

// detach keeps new calls from a stream. k.mu is held.
func (k *keepAliver) detach(s *aliveStream) {
	s.retired = true
	s.idle.Stop()
	if k.stream == s {
		k.stream = nil
	}
}

// fail ends all calls of a stream that has ended.
func (k *keepAliver) fail(s *aliveStream, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.detach(s)
	delete(k.all, s)
	if err == nil {
		err = errStreamEnded
	}
	for _, calls := range s.waiting {
		for _, c := range calls {
			c.end(nil, err)
		}
	}
	clear(s.waiting)
}

// close ends the streams and waits for their goroutines. Keep-alives go on, each over a stream of its own.
func (k *keepAliver) close() {
	k.mu.Lock()
	k.closed = true
	for s := range k.all {
		s.cancel()
	}
	k.mu.Unlock()
	k.running.Wait()
}
