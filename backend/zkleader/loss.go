package zkleader

import (
	"time"

	"github.com/goleader/leader/backend"
)

// Lost returns a channel that is closed when the session has ended, or the node of the term was deleted by somebody
// else. It is watched from the age of 100 ms on.
func (l *lease) Lost() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.lost = make(chan struct{})
		if l.gone {
			close(l.lost)
		}
	}
	l.guardLater()
	return l.lost
}

// guardLater lets the node be watched if somebody wants to know, and it is not. The caller has the mutex.
func (l *lease) guardLater() {
	if l.lost == nil || l.watched || l.gone || l.released {
		return
	}
	l.watched = true
	l.timer = time.AfterFunc(watchAfter, func() { l.backend.spawn(l.guard) })
}

// guard watches the node of the term, and finds out whether it is there. On a connection that breaks it tries again
// on the next one, or hears there that the session has ended.
func (l *lease) guard() {
	for !l.over() {
		w := l.backend.watchTerm(l.session, l.child)
		<-w.armed
		switch {
		case l.session.ended(), w.err == nil && !w.exists:
			l.lose()
		case w.err == nil:
			l.session.watches.listen(w, l.noticed)
			return
		case kindOf(w.err) != backend.Unavailable:
			return // Renewals will tell.
		}
	}
}

func (l *lease) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.released || l.gone
}

// noticed is told that something happened to the node, or to the session. Somebody may have written the node, so that
// it is there after all.
func (l *lease) noticed() {
	l.backend.spawn(l.guard)
}

// lose marks the lease as lost.
func (l *lease) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone || l.released {
		return
	}
	l.gone = true
	if l.lost != nil {
		close(l.lost)
	}
}
