package k8sleader

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// linger is how long a watch that nobody needs stays open. A waiter whose attempt failed comes back at once, so opening
// it anew each time would be waste.
const linger = 5 * time.Second

// shortest is how long a watch has to last for another one to be opened at once.
const shortest = time.Second

var (
	errClosed      = errors.New("the backend is closed")
	errWatchEnded  = errors.New("the server ended the watch")
	errWatchCut    = errors.New("the server, or something before it, ends watches at once")
	errInterrupted = errors.New("the watch was given up, because its connection may be dead")
)

// watches lets everybody in a process who follows one Lease share one watch. What a watch tells goes into the memory of
// the backend.
type watches struct {
	backend *Backend
	running sync.WaitGroup
	ctx     context.Context //nolint:containedctx // Watches outlive the calls that open them; Close ends it.
	stop    context.CancelCauseFunc

	mu     sync.Mutex
	topics map[string]*topic // by the name of the object
	closed bool
}

// topic is the watch of one Lease. Its mutex is that of the watches.
type topic struct {
	name    string
	cancel  context.CancelCauseFunc
	users   int
	idle    *time.Timer   // set while nobody uses it
	opened  bool          // the server tells of changes from now on
	looked  bool          // the Lease was read after that
	changed chan struct{} // closed, and made anew, at each change
	ended   error         // why nothing more will be told
}

func newWatches(b *Backend) *watches {
	w := &watches{backend: b, topics: map[string]*topic{}}
	w.ctx, w.stop = context.WithCancelCause(context.Background()) //nolint:forbidigo // Close ends it.
	return w
}

// join returns the topic of a Lease.
func (w *watches) join(name string) (*topic, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, errClosed
	}
	t := w.topics[name]
	if t == nil {
		watched, cancel := context.WithCancelCause(w.ctx)
		t = &topic{name: name, cancel: cancel, changed: make(chan struct{})}
		w.topics[name] = t
		w.running.Go(func() { w.run(watched, t) })
	}
	t.users++
	if t.idle != nil {
		t.idle.Stop()
		t.idle = nil
	}
	return t, nil
}

// start runs f on a goroutine that close waits for. It reports false if the backend is closed.
func (w *watches) start(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.running.Go(f)
	}
	return !w.closed
}

func (w *watches) leave(t *topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.users--; t.users > 0 || t.ended != nil {
		return
	}
	t.idle = time.AfterFunc(linger, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if t.users == 0 {
			w.end(t, errWatchEnded)
		}
	})
}

// run delivers what the server tells until the watch ends.
func (w *watches) run(ctx context.Context, t *topic) {
	err := w.deliver(ctx, t)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(t, err)
}

// end tells the users of a topic that nothing more will come. w.mu is held.
func (w *watches) end(t *topic, err error) {
	t.cancel(err)
	if t.ended != nil {
		return
	}
	t.ended = err
	if w.topics[t.name] == t {
		delete(w.topics, t.name)
	}
	if t.idle != nil {
		t.idle.Stop()
	}
	t.tell()
}

// tell wakes the users of a topic. The mutex is held.
func (t *topic) tell() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func (w *watches) deliver(ctx context.Context, t *topic) error {
	// Without a version it begins with the Lease as it is, if there is one.
	asked, _ := ask(ctx)
	stream, err := w.backend.api.leases.Watch(asked, metav1.ListOptions{FieldSelector: "metadata.name=" + t.name})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return w.backend.failed(asked, "watch", err)
	}
	defer stream.Stop()
	began := time.Now()
	w.mu.Lock()
	t.opened = true
	t.tell()
	w.mu.Unlock()
	for {
		select {
		case event, ok := <-stream.ResultChan():
			if !ok && time.Since(began) < shortest {
				return errWatchCut
			}
			if !ok {
				return errWatchEnded
			}
			if event.Type == watch.Error {
				return w.backend.failed(asked, "watch", apierrors.FromObject(event.Object))
			}
			w.take(event, t)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take notes what a watch told.
func (w *watches) take(event watch.Event, t *topic) {
	object, ok := event.Object.(*coordinationv1.Lease)
	if !ok {
		return
	}
	memory := w.backend.memory
	if event.Type == watch.Deleted {
		if rv, err := strconv.ParseUint(object.ResourceVersion, 10, 64); err == nil {
			memory.toldGone(t.name, rv)
		}
	} else if s, err := read(object); err == nil {
		memory.told(s)
	} else {
		memory.doubt(t.name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.tell()
}

// interrupt ends all watches, whose connections may be dead.
func (w *watches) interrupt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.topics {
		w.end(t, errInterrupted)
	}
}

// close ends everything for good and waits for the goroutines.
func (w *watches) close() {
	w.mu.Lock()
	w.closed = true
	w.stop(errClosed)
	for _, t := range w.topics {
		w.end(t, errClosed)
	}
	w.mu.Unlock()
	w.running.Wait()
}

// status is the state of a topic: the channel that is closed at the next change, whether a look at the Lease would miss
// nothing and whether it has been taken, and why nothing more will come.
func (w *watches) status(t *topic) (changed <-chan struct{}, opened, looked bool, ended error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.changed, t.opened, t.looked, t.ended
}

// follows reports whether the memory of a Lease is kept up to date.
func (w *watches) follows(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.topics[name]
	return t != nil && t.opened && t.looked
}

func (w *watches) markLooked(t *topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.looked = true
}
