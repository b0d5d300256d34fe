package etcdleader

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader/backend"
)

// linger is how long a watch stays that nobody uses. A waiter whose attempt failed comes back at once, and should not
// have to begin anew.
const linger = 10 * time.Second

var errWatchEnded = backend.WithKind(errors.New("the watch has ended"), backend.Unavailable)

// sight is the state of a place.
type sight struct {
	revision int64            // of the store, when it was so
	kv       *mvccpb.KeyValue // that counts; nil if there is none
	kept     bool
}

func newSight(revision int64, kv *mvccpb.KeyValue) sight {
	s := sight{revision: revision, kv: kv}
	if kv != nil {
		r, err := decode(kv)
		s.kept = err == nil && r.Kept
	}
	return s
}

// isHeldSince reports whether the place has the holder with this fence.
func (s sight) isHeldSince(fence int64) bool {
	return s.kv != nil && s.kv.CreateRevision == fence && !s.kept && !isStray(s.kv)
}

// subscriber is told the state of a place now and after each change, or why the watch has ended, after which it is told
// nothing any more. It must not block. It may be told an old state after a newer one.
type subscriber interface {
	see(ctx context.Context, s sight, err error)
}

// notifier lets many share the watch of a place: those who wait for it, those who look on, and who holds it. The client
// sends all watches over one stream.
type notifier struct {
	client *clientv3.Client

	mu     sync.Mutex
	topics map[string]*topic
	closed bool

	running sync.WaitGroup
}

// topic is a place that is watched. Its fields are guarded by the notifier's mutex, but the last.
type topic struct {
	place       string
	cancel      context.CancelFunc
	subscribers map[subscriber]struct{}
	known       bool // latest is valid
	latest      sight
	unused      *time.Timer // ends the watch

	// Only the goroutine of the watch uses these.
	kvs    []*mvccpb.KeyValue // all that are at the place
	looked int64              // the revision of the look
}

func newNotifier(client *clientv3.Client) *notifier {
	return &notifier{client: client, topics: map[string]*topic{}}
}

// join begins to tell s about a place. It does not wait.
func (n *notifier) join(ctx context.Context, place string, s subscriber) {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		s.see(ctx, sight{}, errClosed)
		return
	}
	t := n.topics[place]
	if t == nil {
		t = n.start(ctx, place)
	}
	t.unused.Stop()
	t.subscribers[s] = struct{}{}
	known, latest := t.known, t.latest
	n.mu.Unlock()
	if known {
		s.see(ctx, latest, nil)
	}
}

// leave ends what join began.
func (n *notifier) leave(place string, s subscriber) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.topics[place]
	if t == nil {
		return
	}
	delete(t.subscribers, s)
	if len(t.subscribers) == 0 {
		t.unused.Reset(linger)
	}
}

// start begins a watch that outlives ctx. n.mu is held.
func (n *notifier) start(ctx context.Context, place string) *topic {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t := &topic{place: place, cancel: cancel, subscribers: map[subscriber]struct{}{}}
	t.unused = time.AfterFunc(linger, func() { n.retire(t) })
	n.topics[place] = t
	n.running.Go(func() {
		defer cancel()
		n.finish(ctx, t, n.follow(ctx, t))
	})
	return t
}

// follow watches from now on, and then looks once: what has changed before the watch is in the look, and what changes
// after it in the watch. A watch from an earlier revision is served on a slow tick.
func (n *notifier) follow(ctx context.Context, t *topic) error {
	opts := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithCreatedNotify()}
	for answer := range n.client.Watch(clientv3.WithRequireLeader(ctx), t.place, opts...) {
		if err := answer.Err(); err != nil {
			return watchError(err)
		}
		if answer.Created {
			if err := n.look(ctx, t); err != nil {
				return err
			}
		}
		if revision := t.change(answer.Events); revision > 0 {
			n.tell(ctx, t, newSight(revision, leading(t.kvs)))
		}
	}
	return errWatchEnded
}

// change notes what has happened since the look. It returns the revision of the last event, 0 if there was none.
func (t *topic) change(events []*clientv3.Event) (revision int64) {
	for _, e := range events {
		if e.Kv.ModRevision <= t.looked {
			continue
		}
		revision = e.Kv.ModRevision
		t.kvs = slices.DeleteFunc(t.kvs, func(kv *mvccpb.KeyValue) bool { return string(kv.Key) == string(e.Kv.Key) })
		if e.Type != clientv3.EventTypeDelete {
			t.kvs = append(t.kvs, e.Kv)
		}
	}
	return revision
}

// watchError finds the server's error in the text to which a watch reduces it.
func watchError(err error) error {
	const mark = "desc = "
	text := err.Error()
	i := strings.LastIndex(text, mark)
	if i < 0 {
		return err
	}
	if known, ok := errors.AsType[rpctypes.EtcdError](rpctypes.Error(errors.New(text[i+len(mark):]))); ok {
		return known
	}
	return err
}

func (n *notifier) look(ctx context.Context, t *topic) error {
	answer, err := n.client.Get(ctx, t.place, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	t.kvs, t.looked = answer.Kvs, answer.Header.Revision
	n.tell(ctx, t, newSight(t.looked, leading(t.kvs)))
	return nil
}

// tell makes a sight known, which is newer than the one before.
func (n *notifier) tell(ctx context.Context, t *topic, s sight) {
	n.mu.Lock()
	t.known, t.latest = true, s
	list := t.list()
	n.mu.Unlock()
	for _, sub := range list {
		sub.see(ctx, s, nil)
	}
}

func (t *topic) list() []subscriber {
	list := make([]subscriber, 0, len(t.subscribers))
	for s := range t.subscribers {
		list = append(list, s)
	}
	return list
}

// finish tells everybody that a watch has ended.
func (n *notifier) finish(ctx context.Context, t *topic, err error) {
	n.mu.Lock()
	if n.topics[t.place] == t {
		delete(n.topics, t.place)
	}
	t.unused.Stop()
	list := t.list()
	if n.closed {
		err = errClosed
	}
	n.mu.Unlock()
	for _, s := range list {
		s.see(ctx, sight{}, classify(ctx, err))
	}
}

// retire ends a watch that nobody has used for long.
func (n *notifier) retire(t *topic) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(t.subscribers) == 0 && n.topics[t.place] == t {
		delete(n.topics, t.place)
		t.cancel()
	}
}

// close ends all watches and waits for their goroutines.
func (n *notifier) close() {
	n.mu.Lock()
	n.closed = true
	for _, t := range n.topics {
		t.cancel()
	}
	n.mu.Unlock()
	n.running.Wait()
}
