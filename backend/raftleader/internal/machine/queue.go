package machine

import (
	"cmp"
	"container/heap"
)

// event is the next thing that the passing of time does to a lease or a record: it has one of the two.
type event struct {
	due   int64
	in    *queue // nil outside of any
	place int
	lease *lease
	value *value
}

// before is the order of events. It is the same in every machine, also of those that are due at one time.
func (e *event) before(other *event) bool {
	if e.lease == nil || other.lease == nil {
		return e.due < other.due
	}
	return cmp.Or(cmp.Compare(e.due, other.due), cmp.Compare(e.lease.key, other.lease.key)) < 0
}

// leave takes e out of its queue.
func (e *event) leave() {
	if e.in != nil {
		heap.Remove(e.in, e.place)
	}
}

// queue has events, the first one at its head. It implements [heap.Interface].
type queue struct{ events []*event }

// head returns the first event, nil if there is none.
func (q *queue) head() *event {
	if len(q.events) == 0 {
		return nil
	}
	return q.events[0]
}

// next returns the first event if it is due by the given time, else nil.
func (q *queue) next(at int64) *event {
	if e := q.head(); e != nil && e.due <= at {
		return e
	}
	return nil
}

// put moves e here from wherever it is, or to another place, for the given time.
func (q *queue) put(e *event, due int64) {
	switch {
	case e.in != q:
		e.leave()
		e.due = due
		heap.Push(q, e)
	case e.due != due:
		e.due = due
		heap.Fix(q, e.place)
	}
}

// Len implements [heap.Interface].
func (q *queue) Len() int { return len(q.events) }

// Less implements [heap.Interface].
func (q *queue) Less(i, j int) bool { return q.events[i].before(q.events[j]) }

// Swap implements [heap.Interface].
func (q *queue) Swap(i, j int) {
	q.events[i], q.events[j] = q.events[j], q.events[i]
	q.events[i].place, q.events[j].place = i, j
}

// Push implements [heap.Interface].
func (q *queue) Push(x any) {
	e := x.(*event)
	e.in, e.place = q, len(q.events)
	q.events = append(q.events, e)
}

// Pop implements [heap.Interface].
func (q *queue) Pop() any {
	last := len(q.events) - 1
	e := q.events[last]
	q.events[last] = nil
	q.events = q.events[:last]
	e.in = nil
	return e
}
