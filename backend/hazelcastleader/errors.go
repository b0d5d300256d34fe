package hazelcastleader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hazelcast/hazelcast-go-client/hzerrors"

	"github.com/goleader/leader/backend"
)

// The client's errors, by what they mean for another try.
var (
	deniedErrors = []error{
		hzerrors.ErrAuthentication, hzerrors.ErrClientNotAllowedInCluster, hzerrors.ErrSecurity, hzerrors.ErrAccessControl,
		hzerrors.ErrLogin, hzerrors.ErrIllegalAccess, hzerrors.ErrIllegalAccessException,
	}
	misconfiguredErrors = []error{
		hzerrors.ErrClientNotActive, hzerrors.ErrConfigMismatch, hzerrors.ErrInvalidConfiguration, hzerrors.ErrClassCast,
		hzerrors.ErrClassNotFound, hzerrors.ErrHazelcastSerialization, hzerrors.ErrIllegalArgument,
		hzerrors.ErrUnsupportedOperation, hzerrors.ErrServiceNotFound, hzerrors.ErrFlakeIDNodeIDOutOfRangeException,
		hzerrors.ErrNoSuchMethod, hzerrors.ErrNoSuchMethodException, hzerrors.ErrNoClassDefFound,
	}
	unavailableErrors = []error{
		hzerrors.ErrClientOffline, hzerrors.ErrAddressNotFound, hzerrors.ErrCallerNotMember,
		hzerrors.ErrHazelcastInstanceNotActive, hzerrors.ErrHazelcastOverLoad, hzerrors.ErrIO,
		hzerrors.ErrIndeterminateOperationState, hzerrors.ErrMemberLeft, hzerrors.ErrNoDataMember,
		hzerrors.ErrOperationTimeout, hzerrors.ErrOutOfMemory, hzerrors.ErrNativeOutOfMemory,
		hzerrors.ErrPartitionMigrating, hzerrors.ErrReachedMaxSize, hzerrors.ErrRejectedExecution,
		hzerrors.ErrRetryableHazelcast, hzerrors.ErrRetryableIO, hzerrors.ErrSocket, hzerrors.ErrSplitBrainProtection,
		hzerrors.ErrTargetDisconnected, hzerrors.ErrTargetNotMember, hzerrors.ErrTargetNotReplicaException,
		hzerrors.ErrTimeout, hzerrors.ErrWrongTarget,
	}
)

// classify attaches a kind to an error of the client, shortens its text, and says so if ctx has ended.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	kind := kindOf(err)
	if end := ctx.Err(); end != nil && kind != backend.Denied && kind != backend.Misconfigured {
		return backend.WithKind(end, backend.Unavailable)
	}
	return noAnswer(err)
}

// noAnswer is classify where only the time for a single request has ended, of which the caller's context knows nothing.
func noAnswer(err error) error {
	kind := kindOf(err)
	if errors.Is(err, context.DeadlineExceeded) {
		return backend.WithKind(fmt.Errorf("no answer within %v", tryTimeout), backend.Unavailable)
	}
	return backend.WithKind(brief{err}, kind)
}

func kindOf(err error) backend.Kind {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case slices.ContainsFunc(deniedErrors, is):
		return backend.Denied
	case slices.ContainsFunc(misconfiguredErrors, is):
		return backend.Misconfigured
	case slices.ContainsFunc(unavailableErrors, is), is(context.Canceled), is(context.DeadlineExceeded):
		return backend.Unavailable
	}
	return backend.KindOf(err)
}

// brief is an error of the client without the stack of the member's threads.
type brief struct{ err error }

// serverPrefix begins the text of an error of a member.
const serverPrefix = "got exception from server:"

func (e brief) Error() string {
	text, isServer := strings.CutPrefix(e.err.Error(), serverPrefix)
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if isServer {
		text = "member: " + text
	}
	return strings.TrimSpace(text)
}

func (e brief) Unwrap() error { return e.err }
