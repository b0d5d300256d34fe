package k8sleader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/goleader/leader/backend"
)

// patient is how long a request may be unanswered before its connection is suspected.
const patient = 250 * time.Millisecond

// failed attaches a kind to an error of the client, and the context's error if that is why the call ended. ctx is that of
// the request, and verb what it needs the right for.
func (b *Backend) failed(ctx context.Context, verb string, err error) error {
	if err == nil {
		return nil
	}
	kind := kindOf(err)
	if kind == backend.Denied {
		err = fmt.Errorf("the verb %q on leases.coordination.k8s.io in namespace %q is needed: %w", verb, b.namespace, err)
	}
	end := ctx.Err()
	if a, ok := ctx.Value(answerKey{}).(*answer); ok && a.at.IsZero() && time.Since(a.sent) > patient &&
		errors.Is(end, context.DeadlineExceeded) {
		b.suspect()
	}
	if end != nil && kind != backend.Denied && kind != backend.Misconfigured && !errors.Is(err, end) {
		err = fmt.Errorf("%w: %w", end, err)
	}
	return backend.WithKind(err, kind)
}

// suspect gives up the connections that may have swallowed a request. The watches on them would keep them open.
func (b *Backend) suspect() {
	b.watches.interrupt()
	b.api.closeIdle()
}

func kindOf(err error) backend.Kind {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return kindOfStatus(int(status.ErrStatus.Code))
	}
	_, network := errors.AsType[net.Error](err)
	switch {
	case network,
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return backend.Unavailable
	}
	return backend.Unknown
}

// kindOfStatus judges an answer by its HTTP status.
func kindOfStatus(code int) backend.Kind {
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return backend.Denied
	case code == http.StatusConflict, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout,
		code == http.StatusGone, // a watch or a page of a list that began too long ago
		code >= http.StatusInternalServerError:
		return backend.Unavailable
	case code >= http.StatusBadRequest: // NotFound is that of the namespace, or of the API; an object's is handled.
		return backend.Misconfigured
	}
	return backend.Unknown
}

// isChanged reports whether the object is no longer what a conditioned write expected, or may be.
func isChanged(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err)
}

// isMissing reports whether the API server says that there is no such object. A proxy before it says so in other words,
// and knows nothing of objects.
func isMissing(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}

// isConflict reports whether the object has surely changed.
func isConflict(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
