package wire

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// answering is a pipeline that has answers for whoever reads them.
type answering struct {
	raft.AppendPipeline

	answers chan raft.AppendFuture
	closed  int
}

func (a *answering) Consumer() <-chan raft.AppendFuture { return a.answers }

func (a *answering) Close() error {
	a.closed++
	return nil
}

// answer is the nth one.
type answer struct {
	raft.AppendFuture

	n int
}

func TestPipeline_TakesAnswersThatNobodyReads(t *testing.T) {
	inner := &answering{answers: make(chan raft.AppendFuture)}
	p := newPipeline(inner)
	const many = 100
	for n := range many {
		select {
		case inner.answers <- answer{n: n}:
		case <-time.After(10 * time.Second):
			t.Fatalf("answer %d is not taken", n)
		}
	}
	for n := range many {
		select {
		case a := <-p.Consumer():
			if got := a.(answer).n; got != n {
				t.Fatalf("answer %d came in the place of %d", got, n)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("answer %d does not come", n)
		}
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if inner.closed != 1 {
		t.Errorf("closed %d times", inner.closed)
	}
}
