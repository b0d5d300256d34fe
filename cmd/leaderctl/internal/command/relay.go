package command

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/goleader/leader/cmd/leaderctl/internal/child"
)

// relay passes signals on to the command, and while there is none ends what the tool does.
type relay struct {
	ctx    context.Context //nolint:containedctx // it is what the relay ends
	cancel context.CancelCauseFunc
	caught chan os.Signal
	done   chan struct{}

	mu      sync.Mutex
	command *child.Process
	ending  syscall.Signal // the last one passed on that asks for the end; 0 without
}

func newRelay(ctx context.Context) *relay {
	r := &relay{caught: make(chan os.Signal, 16), done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	for _, sig := range passedOn {
		if !signal.Ignored(sig) { // as under nohup
			signal.Notify(r.caught, sig)
		}
	}
	go r.pass()
	return r
}

func (r *relay) pass() {
	defer close(r.done)
	for sig := range r.caught {
		r.mu.Lock()
		switch {
		case r.command != nil:
			r.command.Signal(sig)
			if s, ok := sig.(syscall.Signal); ok && asksForEnd(sig) {
				r.ending = s
			}
		case endsWait(sig):
			s, _ := sig.(syscall.Signal)
			r.cancel(signaled{s})
		}
		r.mu.Unlock()
	}
}

// start starts a command that gets the signals from then on. Signals that came before have ended the context.
func (r *relay) start(begin func() (*child.Process, error)) (*child.Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return nil, context.Cause(r.ctx)
	}
	p, err := begin()
	if err == nil {
		r.command = p
	}
	return p, err
}

// ended notes that there is no command any more.
func (r *relay) ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.command = nil
}

// settle ends the context if a command was asked to end: nothing is to be started after it.
func (r *relay) settle() {
	if sig, ok := r.asked(); ok {
		r.cancel(signaled{sig})
	}
}

// asked is the signal by which a command was asked to end, if one was.
func (r *relay) asked() (sig syscall.Signal, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ending, r.ending != 0
}

func (r *relay) close() {
	signal.Stop(r.caught)
	close(r.caught)
	<-r.done
	r.cancel(nil)
}
