package mongoleader

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/goleader/leader/backend"
)

// Codes of the server that are answers.
const (
	namespaceExists = 48
	maxTimeExpired  = 50
	commandNotFound = 59
)

// early is how long before the deadline of its context a call may have been given up for it.
const early = 100 * time.Millisecond

// The codes of the server's errors, by what they mean for another try.
var (
	deniedCodes = []int{
		11,   // UserNotFound
		13,   // Unauthorized
		18,   // AuthenticationFailed
		31,   // RoleNotFound
		391,  // ReauthenticationRequired
		8000, // AtlasError, by which Atlas refuses
	}
	misconfiguredCodes = []int{
		2,     // BadValue
		9,     // FailedToParse
		14,    // TypeMismatch
		20,    // IllegalOperation
		52,    // DollarPrefixedFieldName
		59,    // CommandNotFound
		72,    // InvalidOptions
		73,    // InvalidNamespace
		85,    // IndexOptionsConflict
		86,    // IndexKeySpecsConflict
		121,   // DocumentValidationFailure
		166,   // CommandNotSupportedOnView
		224,   // QueryFeatureNotAllowed
		323,   // APIStrictError
		16554, // $add of something else than numbers and dates
		16556, // $subtract likewise
		16612, // a number was expected
	}
	unavailableCodes = []int{
		6,     // HostUnreachable
		7,     // HostNotFound
		24,    // LockTimeout
		43,    // CursorNotFound
		46,    // LockBusy
		50,    // MaxTimeMSExpired
		63,    // StaleShardVersion
		64,    // WriteConcernTimeout
		89,    // NetworkTimeout
		91,    // ShutdownInProgress
		100,   // UnsatisfiableWriteConcern
		112,   // WriteConflict
		133,   // FailedToSatisfyReadPreference
		146,   // ExceededMemoryLimit
		189,   // PrimarySteppedDown
		262,   // ExceededTimeLimit
		462,   // IngressRequestRateLimitExceeded
		9001,  // SocketException
		10107, // NotWritablePrimary
		11600, // InterruptedAtShutdown
		11602, // InterruptedDueToReplStateChange
		13435, // NotPrimaryNoSecondaryOk
		13436, // NotPrimaryOrSecondary
		14031, // OutOfDiskSpace
	}
)

// classify attaches a kind to an error of the driver, and the context's error if that is why the call ended.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	kind := kindOf(err)
	if end := ended(ctx, err); end != nil && kind != backend.Denied && kind != backend.Misconfigured &&
		!errors.Is(err, end) {
		err = fmt.Errorf("%w: %w", end, err)
	}
	return backend.WithKind(err, kind)
}

// ended is the context's error if it has ended, or if the driver or the server gave up in view of its deadline, which
// both do a little early.
func ended(ctx context.Context, err error) error {
	if end := ctx.Err(); end != nil {
		return end
	}
	deadline, ok := ctx.Deadline()
	if ok && (hasCode(err, maxTimeExpired) || mongo.IsTimeout(err) && time.Until(deadline) < early) {
		return context.DeadlineExceeded
	}
	return nil
}

func kindOf(err error) backend.Kind {
	switch {
	case hasCode(err, deniedCodes...):
		return backend.Denied
	case hasCode(err, misconfiguredCodes...), errors.Is(err, mongo.ErrClientDisconnected):
		return backend.Misconfigured
	case hasCode(err, unavailableCodes...), unreachable(err):
		return backend.Unavailable
	}
	return backend.Unknown
}

// unreachable reports whether the server did not answer.
func unreachable(err error) bool {
	if mongo.IsNetworkError(err) || mongo.IsTimeout(err) || errors.Is(err, context.Canceled) {
		return true
	}
	_, network := errors.AsType[net.Error](err)
	_, selection := errors.AsType[topology.ServerSelectionError](err)
	_, connection := errors.AsType[topology.ConnectionError](err)
	return network || selection || connection
}

// hasCode reports whether the server answered with one of codes.
func hasCode(err error, codes ...int) bool {
	answer, ok := errors.AsType[mongo.ServerError](err)
	return ok && slices.ContainsFunc(codes, answer.HasErrorCode)
}
