package zkleader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader/backend"
)

// errClosed says that the backend was closed.
var errClosed = errors.New("zkleader: the backend is closed")

// errForeign says that a node has data that was never a record of ours.
var errForeign = errors.New("none of ours")

// classify attaches a kind to an error of the client, and the context's error if that is why the call ended.
func classify(ctx context.Context, path string, err error) error {
	if err == nil {
		return nil
	}
	kind := kindOf(err)
	err = fmt.Errorf("%s: %w", path, err)
	if end := ctx.Err(); end != nil && kind != backend.Denied && kind != backend.Misconfigured && !errors.Is(err, end) {
		err = fmt.Errorf("%w: %w", end, err)
	}
	return backend.WithKind(err, kind)
}

func kindOf(err error) backend.Kind {
	is := func(list ...error) bool {
		for _, target := range list {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	_, network := errors.AsType[net.Error](err)
	switch {
	case is(zk.ErrNoAuth, zk.ErrAuthFailed):
		return backend.Denied
	case is(zk.ErrInvalidACL, zk.ErrInvalidPath, zk.ErrNoChildrenForEphemerals, errClosed):
		return backend.Misconfigured
	case network, is(zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrClosing, zk.ErrSessionExpired, zk.ErrSessionMoved,
		context.DeadlineExceeded, context.Canceled, io.EOF, io.ErrUnexpectedEOF):
		return backend.Unavailable
	}
	return backend.KindOf(err)
}

// isConflict reports whether a write found something else than what was seen before it.
func isConflict(err error) bool {
	return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists)
}

// unreadable says that a node has data that is not a record of ours.
func unreadable(path string, reason error) error {
	return backend.WithKind(fmt.Errorf("%s: the data cannot be read: %w", path, reason), backend.Misconfigured)
}
