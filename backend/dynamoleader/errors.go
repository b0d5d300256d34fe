package dynamoleader

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/goleader/leader/backend"
)

const (
	// patient is how long a request may be unanswered before its connection is suspected.
	patient = 250 * time.Millisecond

	// skewed is from what difference on the client mends its signatures by the Date of the refusal. The service accepts
	// up to five minutes.
	skewed = 4 * time.Minute
)

// The codes of the service's errors, by what they mean for another try.
var (
	deniedCodes = []string{
		"AccessDenied",
		"AccessDeniedException",
		"ExpiredToken",
		"ExpiredTokenException",
		"IncompleteSignature",
		"IncompleteSignatureException",
		"InvalidClientTokenId",
		"MissingAuthenticationToken",
		"MissingAuthenticationTokenException",
		"NotAuthorized",
		"OptInRequired",
		"UnrecognizedClientException",
	}
	// These are given to a wrong key, and to a wrong clock.
	signatureCodes = []string{
		"InvalidSignatureException",
		"RequestExpired",
		"RequestTimeTooSkewed",
		"SignatureDoesNotMatch",
	}
	misconfiguredCodes = []string{
		"InvalidAction",
		"InvalidEndpointException",
		"ResourceNotFoundException",
		"SerializationException",
		"UnknownOperationException",
		"ValidationException",
	}
	unavailableCodes = []string{
		"InternalFailure",
		"InternalServerError",
		"LimitExceededException",
		"ProvisionedThroughputExceededException",
		"ReplicatedWriteConflictException",
		"RequestLimitExceeded",
		"RequestTimeout",
		"RequestTimeoutException",
		"ResourceInUseException",
		"ServiceUnavailable",
		"ServiceUnavailableException",
		"SlowDown",
		"Throttling",
		"ThrottlingException",
		"TooManyRequestsException",
		"TransactionConflictException",
		"TransactionInProgressException",
	}
)

// errBusy says that the item changed each time.
var errBusy = backend.WithKind(errors.New("the item changed with every try"), backend.Unavailable)

// failed attaches a kind to an error of the client, and the context's error if that is why the call ended.
func (b *Backend) failed(ctx context.Context, a *answer, err error) error {
	b.refused(a, err)
	if condition, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return &refusedError{error: err, item: condition.Item, answer: a}
	}
	kind := kindOf(err)
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); ok {
		err = fmt.Errorf("table %q: %w (Migrate makes it; is it the right Region and account?)", b.table, err)
	}
	end := ctx.Err()
	if a.at.IsZero() && time.Since(a.sent) > patient && errors.Is(end, context.DeadlineExceeded) {
		b.closeIdle() // One that has just swallowed a request would swallow the next.
	}
	if end != nil && kind != backend.Denied && kind != backend.Misconfigured && !errors.Is(err, end) {
		err = fmt.Errorf("%w: %w", end, err)
	}
	return backend.WithKind(err, kind)
}

// closeIdle closes the connections that no request uses.
func (b *Backend) closeIdle() {
	if client, ok := b.client.Options().HTTPClient.(interface{ CloseIdleConnections() }); ok {
		client.CloseIdleConnections()
	}
}

func kindOf(err error) backend.Kind {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		switch code := api.ErrorCode(); {
		case slices.Contains(deniedCodes, code):
			return backend.Denied
		case slices.Contains(signatureCodes, code):
			if isSkew(err) {
				return backend.Unavailable
			}
			return backend.Denied
		case slices.Contains(misconfiguredCodes, code):
			return backend.Misconfigured
		case slices.Contains(unavailableCodes, code):
			return backend.Unavailable
		}
	}
	// A request without an answer has the status 0.
	if response, ok := errors.AsType[*awshttp.ResponseError](err); ok && response.HTTPStatusCode() != 0 {
		return kindOfStatus(response.HTTPStatusCode())
	}
	return kindOfNone(err)
}

// isSkew reports whether the service has another time than this machine. The client has learned that by the answer, so
// that the next request may be accepted.
func isSkew(err error) bool {
	response, ok := errors.AsType[*awshttp.ResponseError](err)
	if !ok || response.HTTPStatusCode() == 0 {
		return false
	}
	date, failed := http.ParseTime(response.Response.Header.Get("Date"))
	return failed == nil && time.Since(date).Abs() > skewed
}

// kindOfStatus judges an answer with a code that is not known, such as that of a proxy.
func kindOfStatus(status int) backend.Kind {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return backend.Denied
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout,
		status >= http.StatusInternalServerError:
		return backend.Unavailable
	case status == http.StatusNotFound:
		return backend.Misconfigured
	}
	return backend.Unknown
}

// kindOfNone judges an error without an answer.
func kindOfNone(err error) backend.Kind {
	_, network := errors.AsType[net.Error](err)
	_, sending := errors.AsType[*smithyhttp.RequestSendError](err)
	_, credentials := errors.AsType[credentialsError](err)
	switch {
	case network, sending, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return backend.Unavailable
	case credentials:
		return backend.Denied
	}
	return backend.Unknown
}

// credentialsError says that there are no credentials.
type credentialsError struct{ error }

func (e credentialsError) Unwrap() error { return e.error }

// credentials marks the errors of those that it wraps, which the SDK passes on as they are.
type credentials struct{ aws.CredentialsProvider }

// Retrieve implements [aws.CredentialsProvider].
func (c credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := c.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		return found, credentialsError{err}
	}
	return found, nil
}
