package leader

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goleader/leader/backend"
)

const (
	// maxRenewals is how many renewals an elector waits for at a time; those it gave up are not counted.
	maxRenewals = 64
	// maxOutstanding is how many renewals of one lease may be unanswered.
	maxOutstanding = 2
	// maxTick is the longest the scheduler sleeps while there are leases: a machine that slept is noticed by then.
	maxTick = time.Second
	// listenAfter is the age from which a lease is listened to, so that short ones cost no goroutine.
	listenAfter = 10 * time.Millisecond
)

// scheduler renews all leases of an elector, and notices when one is lost. It is a heap and one timer, armed only while
// there are leases; it runs nothing else than renewals, each of which has a goroutine for as long as it takes.
type scheduler struct {
	e *engine

	mu      sync.Mutex
	leases  leaseHeap
	timer   *time.Timer
	armed   instant // when the timer fires; 0 if it does not
	waiting int     // renewals that are waited for
	stalled []*hold // due, but there were too many; first come, first served

	forgotten atomic.Bool // some lease has been forgotten since the last turn
}

// schedule is the scheduler's part of a lease.
type schedule struct {
	index       int     // in the heap, counted from 1; 0 if not there
	outstanding int     // renewals without an answer, given up ones included
	next        instant // when there is something to do
	renewAt     instant // when the next renewal is due
	atLeast     instant // renewed until then also without auto-extension
	current     *renewal
	backoff     time.Duration
	failing     instant // since when renewals fail; 0 if they do not
	warned      bool
	stalled     bool
	removed     bool
	quiet       chan struct{} // closed when nothing is outstanding; nil while nobody waits
	listenAt    instant       // when to begin to listen to a driver that learns of losses; 0 if it does not, or it was
	finished    chan struct{} // closed by remove; nil unless somebody listens
}

// add takes over a lease that was just acquired.
func (s *scheduler) add(h *hold, now instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.schedule.renewAt = h.acquired.add(rhythm(h.ttl()))
	if _, ok := h.lease.(backend.LossNotifier); ok {
		h.schedule.listenAt = now.add(listenAfter)
	}
	s.put(h, s.nextEvent(h, now), now)
}

// remove stops the renewals of a lease. The channel it returns is closed when none is outstanding; nil means now. cancel
// ends the one under way; nil if there is none.
func (s *scheduler) remove(h *hold) (quiet <-chan struct{}, cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.schedule.removed = true
	if h.schedule.finished != nil {
		close(h.schedule.finished)
		h.schedule.finished = nil
	}
	if r := h.schedule.current; r != nil {
		cancel = r.cancel
	}
	s.stopWaiting(h)
	switch i := h.schedule.index; i {
	case 0:
	case len(s.leases):
		s.leases.Pop() // the last one, and the only one where leases are short
	default:
		heap.Remove(&s.leases, i-1)
	}
	if h.schedule.outstanding == 0 {
		return nil, cancel
	}
	if h.schedule.quiet == nil {
		h.schedule.quiet = make(chan struct{})
	}
	return h.schedule.quiet, cancel
}

// kick makes the scheduler look at a lease soon.
func (s *scheduler) kick(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.e.clock.now()
	s.put(h, now, now)
}

// keepUntil renews a lease until the given instant, also without auto-extension.
func (s *scheduler) keepUntil(h *hold, until instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.schedule.atLeast = max(h.schedule.atLeast, until)
	now := s.e.clock.now()
	s.put(h, now, now)
}

// put moves a lease to its place in the heap and arms the timer; s.mu is held.
func (s *scheduler) put(h *hold, next, now instant) {
	if h.schedule.removed {
		return
	}
	h.schedule.next = next
	if h.schedule.index == 0 {
		heap.Push(&s.leases, h)
	} else {
		heap.Fix(&s.leases, h.schedule.index-1)
	}
	s.arm(now)
}

// arm sets the timer for the first event. A timer that fires earlier than needed is left alone: short leases come and
// go without touching it.
func (s *scheduler) arm(now instant) {
	if len(s.leases) == 0 {
		return
	}
	at := min(s.leases[0].schedule.next, now.add(maxTick))
	if s.armed != 0 && s.armed <= at {
		return
	}
	s.armed = max(at, 1)
	d := max(0, now.until(at))
	if s.timer == nil {
		s.timer = time.AfterFunc(d, s.turn)
		return
	}
	s.timer.Reset(d)
}

// turn does what is due. It runs on the timer's goroutine and never waits for the store or for a hook.
func (s *scheduler) turn() {
	for _, h := range s.due() {
		s.look(h)
	}
}

// due takes the leases with something to do off the heap.
func (s *scheduler) due() []*hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = 0
	now := s.e.clock.now()
	if s.forgotten.Swap(false) {
		for _, h := range slices.Clone(s.leases) {
			if h.forgotten.Load() {
				h.schedule.next = now
				heap.Fix(&s.leases, h.schedule.index-1)
			}
		}
	}
	var due []*hold
	for len(s.leases) > 0 && s.leases[0].schedule.next.before(now.add(1)) {
		due = append(due, heap.Pop(&s.leases).(*hold)) // the heap holds nothing else
	}
	s.arm(now)
	return due
}

// forget notes that neither the lease nor a context of it can be reached any more. It is called by the runtime, and
// leaves all else to the next turn.
func (h *hold) forget() {
	h.forgotten.Store(true)
	h.e.renewals.forgotten.Store(true)
}

// look does what is due for a lease and puts it back unless it is lost.
func (s *scheduler) look(h *hold) {
	if h.forgotten.Load() {
		h.abandon()
		return
	}
	if h.over() {
		h.announceLoss(later)
	}
	lost := h.right(s.e.clock.now()) != trusted
	if lost && !h.scoped {
		s.e.vacate(h) // its holder may never release it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if lost || h.schedule.removed {
		if r := h.schedule.current; r != nil {
			r.cancel()
		}
		s.stopWaiting(h)
		if !h.scoped {
			s.keepLost(h)
		}
		return
	}
	now := s.e.clock.now()
	s.listen(h, now)
	s.giveUp(h, now)
	if s.renews(h, now) && now.reached(h.schedule.renewAt) && h.schedule.current == nil {
		s.start(h, now)
	}
	s.put(h, s.nextEvent(h, now), now)
	s.wakeStalled()
}

// listen ends a lease as soon as its driver learns that it is lost. It begins when that is due; s.mu is held.
func (s *scheduler) listen(h *hold, now instant) {
	if h.schedule.listenAt == 0 || !now.reached(h.schedule.listenAt) {
		return
	}
	h.schedule.listenAt = 0
	notifier, ok := h.lease.(backend.LossNotifier)
	if !ok {
		return
	}
	finished := make(chan struct{})
	h.schedule.finished = finished
	go func() {
		select {
		case <-notifier.Lost():
			h.lose()
		case <-finished:
		}
	}()
}

// keepLost keeps a lease that was handed out and lost until it is released or forgotten; s.mu is held.
func (s *scheduler) keepLost(h *hold) {
	now := s.e.clock.now()
	if h.forgotten.Load() {
		s.put(h, now, now)
		return
	}
	s.put(h, never, now)
}

// renews reports whether the lease is kept alive.
func (s *scheduler) renews(h *hold, now instant) bool {
	return !h.call.config.fixed || now.before(h.schedule.atLeast)
}

// nextEvent is when there is something to do for h.
func (s *scheduler) nextEvent(h *hold, now instant) instant {
	next := h.trustedUntil()
	if end := h.maxAt(); end > now {
		next = min(next, end)
	}
	if h.schedule.listenAt != 0 {
		next = min(next, h.schedule.listenAt)
	}
	switch {
	case h.schedule.current != nil:
		next = min(next, h.schedule.current.deadline)
	case h.schedule.outstanding < maxOutstanding && !h.schedule.stalled && s.renews(h, now):
		next = min(next, max(h.schedule.renewAt, now.add(time.Millisecond)))
	}
	return next
}

// rhythm is the time between two renewals of a lease of time l: a third of it, give or take a tenth of that, so that
// leases acquired together do not stay in step.
func rhythm(l time.Duration) time.Duration {
	third := l / 3
	return third - third/10 + rand.N(third/5+1)
}

// leaseHeap orders leases by their next event.
type leaseHeap []*hold

func (l leaseHeap) Len() int           { return len(l) }
func (l leaseHeap) Less(i, j int) bool { return l[i].schedule.next < l[j].schedule.next }

func (l leaseHeap) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].schedule.index, l[j].schedule.index = i+1, j+1
}

func (l *leaseHeap) Push(x any) {
	h := x.(*hold) // the heap holds nothing else
	*l = append(*l, h)
	h.schedule.index = len(*l)
}

func (l *leaseHeap) Pop() any {
	last := len(*l) - 1
	h := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	h.schedule.index = 0
	return h
}
