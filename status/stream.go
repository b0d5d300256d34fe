package status

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

const (
	// backlog is how many messages may wait for a viewer before it is dropped.
	backlog = 16
	// writeBound is the longest that one write to a viewer may take.
	writeBound = 10 * time.Second
	// minGap is the least time between the starts of two looks.
	minGap = 100 * time.Millisecond
	// aliveEvery is the longest that a viewer hears nothing. The page takes thrice as long for a lost connection.
	aliveEvery = 2 * time.Second
	// aliveMessage only says that the server is there, which also shows whether the viewer is.
	aliveMessage = "event: alive\ndata: {}\n\n"
)

var (
	errTooMany = errors.New("too many viewers")
	errClosed  = errors.New("the page is closed")
	errNoFlush = errors.New("nothing can be streamed: a middleware's response writer has neither Flush nor Unwrap")
)

// viewer is somebody who watches.
type viewer struct {
	messages chan []byte // closed when it is dropped
}

// stream sends what there is, and then every change, as server-sent events.
func (p *Page) stream(w http.ResponseWriter, r *http.Request) {
	v, first, err := p.join() //nolint:contextcheck // the poll is for all viewers
	if err != nil {
		w.Header().Set("Retry-After", "5")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer p.leave(v)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for a proxy that would collect messages
	out := http.NewResponseController(w)
	if errors.Is(out.Flush(), http.ErrNotSupported) {
		http.Error(w, errNoFlush.Error(), http.StatusInternalServerError)
		return
	}
	quiet := time.NewTimer(aliveEvery)
	defer quiet.Stop()
	message := append([]byte("retry: 1000\n\n"), first...)
	for {
		// A server's own limit would end the stream; where there is none to set, the connection's end has to do.
		if err := out.SetWriteDeadline(time.Now().Add(writeBound)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return
		}
		if _, err := w.Write(message); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
		quiet.Reset(aliveEvery)
		var ok bool
		select {
		case <-quiet.C:
			message = []byte(aliveMessage)
		case message, ok = <-v.messages:
			if !ok {
				return
			}
		case <-r.Context().Done():
			return
		case <-p.closed:
			return
		}
	}
}

// join adds a viewer, and returns its first message. It sees to it that somebody polls.
func (p *Page) join() (v *viewer, first []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.isClosed():
		return nil, nil, errClosed
	case p.streams >= p.options.MaxViewers:
		return nil, nil, errTooMany
	}
	v = &viewer{make(chan []byte, backlog)}
	if len(p.viewers) == 0 { // else the others have yet to be told what has changed since
		p.shown = p.board.rows()
	}
	p.viewers[v] = struct{}{}
	p.streams++
	if !p.polls {
		p.polls = true
		p.polling.Go(func() { p.poll(ownContext()) })
	}
	return v, messageOf(p.full(time.Now())), nil
}

func (p *Page) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// leave removes a viewer, unless it was dropped. Its place is free only now: one that was dropped may hang in a write.
func (p *Page) leave(v *viewer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.viewers, v)
	p.streams--
}

// tell lets all viewers know what has changed since they were told last; mu is held.
func (p *Page) tell(events bool) {
	if len(p.viewers) == 0 {
		return
	}
	now, rows := time.Now(), p.board.rows()
	changed, gone := difference(p.shown, rows)
	p.shown = rows
	s := p.common(now)
	s.Locks, s.Gone = list(changed, now), gone
	if events {
		s.Events = p.board.events
	}
	message := messageOf(s)
	for v := range p.viewers {
		select {
		case v.messages <- message:
		default:
			delete(p.viewers, v)
			close(v.messages)
		}
	}
}

// full is all that there is; mu is held.
func (p *Page) full(now time.Time) snapshot {
	s := p.common(now)
	s.Locks, s.Events, s.Full = list(p.board.rows(), now), p.board.events, true
	return s
}

// common is a snapshot without what it is about; mu is held.
func (p *Page) common(now time.Time) snapshot {
	b := &p.board
	s := snapshot{
		Backend: p.driver.Name(), Now: instant{now}, Asked: instantOf(b.asked), Stale: b.problem != "" || b.asked.IsZero(),
		Omitted: b.omitted, Release: p.breaker != nil, History: p.options.History != nil,
	}
	if !b.asked.IsZero() {
		s.Age = secondsOf(now.Sub(b.asked))
	}
	for _, problem := range []string{b.problem, b.unread} {
		if problem != "" {
			s.Problems = append(s.Problems, problem)
		}
	}
	return s
}

// messageOf is a server-sent event. JSON has no line breaks of its own.
func messageOf(s snapshot) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		text = []byte(`{"problems":["internal error"]}`) // no value of these types fails
	}
	return append(append([]byte("data: "), text...), "\n\n"...)
}

// poll looks at the store for as long as somebody watches.
func (p *Page) poll(ctx context.Context) {
	for p.watched() {
		began := time.Now()
		p.polling.Go(func() { p.refreshElections(ctx) })
		p.polling.Go(func() { p.refreshEvents(ctx) })
		p.refresh(ctx)
		took := time.Since(began)
		p.await(p.kick, max(p.options.Interval, 3*took)-took)
		p.await(nil, max(minGap, 3*took)-time.Since(began)) // if it was asked for one before
	}
}

// watched reports whether to go on polling.
func (p *Page) watched() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polls = len(p.viewers) > 0 && !p.isClosed()
	return p.polls
}

// await returns after d, when the page is closed, or when there is something in early.
func (p *Page) await(early <-chan struct{}, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-early:
	case <-p.closed:
	}
}

// soon asks for a look before its time.
func (p *Page) soon() {
	select {
	case p.kick <- struct{}{}:
	default: // it is asked for already
	}
}
