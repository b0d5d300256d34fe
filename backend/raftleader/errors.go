package raftleader

import (
	"context"
	"errors"
	"fmt"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader/internal/wire"
)

var (
	errClosed   = backend.WithKind(errors.New("the node is closed"), backend.Misconfigured)
	errNoLeader = errors.New("no raft leader: there is no quorum, or an election is going on")
	errNoQuorum = errors.New("no quorum: too few of the other nodes answer the raft leader")
	errLeft     = errors.New("the node has left the cluster")
)

// elsewhereError says that this node is not the raft leader, or was not long enough: what was asked has no effect.
type elsewhereError struct{ error }

// Unwrap returns why.
func (e elsewhereError) Unwrap() error { return e.error }

// isElsewhere reports whether what was asked has no effect and may be asked again.
func isElsewhere(err error) bool {
	_, ok := errors.AsType[elsewhereError](err)
	return ok
}

// unavailable classifies an error after which a call may be tried again, with the end of ctx if that is why it ended.
func unavailable(ctx context.Context, err error) error {
	if end := ctx.Err(); end != nil && !errors.Is(err, end) {
		err = fmt.Errorf("%w: %w", end, err)
	}
	return backend.WithKind(err, backend.Unavailable)
}

// fault puts an error of the raft leader into an answer.
func fault(err error) (wire.Fault, string) {
	switch {
	case err == nil:
		return wire.None, ""
	case isElsewhere(err):
		return wire.Elsewhere, err.Error()
	case backend.KindOf(err) == backend.Misconfigured:
		return wire.Refused, err.Error()
	}
	return wire.Unsettled, err.Error()
}

// faultError takes it out again.
func faultError(f wire.Fault, text string) error {
	err := errors.New(text)
	switch f {
	case wire.None:
		return nil
	case wire.Elsewhere:
		return elsewhereError{err}
	case wire.Refused:
		return backend.WithKind(err, backend.Misconfigured)
	case wire.Unsettled:
	}
	return err
}
