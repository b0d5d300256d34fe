package wire

import (
	"sync"

	"github.com/hashicorp/raft"
)

// pipeline is one of the library that always takes an answer. The library stops to read answers when it steps down, and
// may be sending at that moment. Its own pipeline then keeps the sender waiting, for ever, and with it the end of the
// node.
type pipeline struct {
	raft.AppendPipeline

	answers chan raft.AppendFuture
	closed  chan struct{}
	close   func() error
}

func newPipeline(inner raft.AppendPipeline) *pipeline {
	p := &pipeline{AppendPipeline: inner, answers: make(chan raft.AppendFuture), closed: make(chan struct{})}
	p.close = sync.OnceValue(func() error {
		close(p.closed)
		return inner.Close()
	})
	go p.pass()
	return p
}

// pass passes answers on in their order.
func (p *pipeline) pass() {
	var waiting []raft.AppendFuture
	for {
		var to chan raft.AppendFuture
		var next raft.AppendFuture
		if len(waiting) > 0 {
			to, next = p.answers, waiting[0]
		}
		select {
		case answer := <-p.AppendPipeline.Consumer():
			waiting = append(waiting, answer)
		case to <- next:
			waiting = waiting[1:]
		case <-p.closed:
			return
		}
	}
}

// Consumer implements [raft.AppendPipeline].
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// Close implements [raft.AppendPipeline].
func (p *pipeline) Close() error { return p.close() }
