package etcdleader

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goleader/leader/backend"
)

// classify attaches a kind to an error of the client, and the context's error if that is why the call ended.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	err = rpctypes.Error(err)
	kind := kindOf(err)
	end := ctx.Err()
	if codeOf(err) == codes.Unknown && strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		// The server looks at the deadline too, and may be a moment ahead.
		end, kind = context.DeadlineExceeded, backend.Unavailable
	}
	if end != nil && kind != backend.Denied && kind != backend.Misconfigured && !errors.Is(err, end) {
		err = fmt.Errorf("%w: %w", end, err)
	}
	return backend.WithKind(err, kind)
}

func kindOf(err error) backend.Kind {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return backend.Unavailable
	}
	for _, denial := range []error{
		rpctypes.ErrPermissionDenied, rpctypes.ErrAuthFailed, rpctypes.ErrInvalidAuthToken, rpctypes.ErrUserEmpty,
		rpctypes.ErrUserNotFound,
	} {
		if errors.Is(err, denial) {
			return backend.Denied
		}
	}
	return kindOfCode(codeOf(err))
}

func kindOfCode(code codes.Code) backend.Kind {
	switch code { //nolint:exhaustive // The others say nothing about another try.
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Aborted:
		return backend.Unavailable
	case codes.PermissionDenied, codes.Unauthenticated:
		return backend.Denied
	case codes.InvalidArgument, codes.Unimplemented:
		return backend.Misconfigured
	}
	return backend.Unknown
}

func codeOf(err error) codes.Code {
	if answer, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return answer.Code()
	}
	return status.Code(err)
}

// isDead reports whether the server said that it has no such lease.
func isDead(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) }

// foreign says that a record cannot be read.
func foreign(place string, err error) error {
	return backend.WithKind(fmt.Errorf("the record %q: %w", place, err), backend.Misconfigured)
}
