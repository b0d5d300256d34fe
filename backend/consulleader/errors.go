package consulleader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
)

// What servers say, by what it means for another try. Some of the client's errors are nothing but such a text.
var (
	deniedTexts        = []string{"Permission denied", "lacks permission", "ACL not found", "ACL support disabled"}
	misconfiguredTexts = []string{"Invalid Session TTL", "Invalid session TTL", "must be between [", "unknown KV verb"}
	unavailableTexts   = []string{
		"No cluster leader", "rpc error", "rpc rate limit exceeded", "raft apply failed", "leadership lost",
		"not the leader", "Missing node registration", "connection reset", "connection refused", "EOF",
	}
)

// refusal is the answer of a server that did nothing of a transaction.
type refusal struct{ errs api.TxnErrors }

func (r *refusal) Error() string {
	texts := make([]string, len(r.errs))
	for i, e := range r.errs {
		texts[i] = e.What
	}
	return "transaction refused: " + strings.Join(texts, "; ")
}

func (r *refusal) kind() backend.Kind {
	if hasText(r.Error(), deniedTexts) {
		return backend.Denied
	}
	return backend.Unknown
}

// says reports whether a reason of the refusal contains text.
func (r *refusal) says(text string) bool { return strings.Contains(r.Error(), text) }

// The reasons why a server refuses to lock a key, by a part of their text.
const (
	saysExists  = " exists"
	saysHeld    = "lock is already held"
	saysDelayed = "due to lock delay"
	saysDead    = "invalid session"
	saysStale   = "index is stale"
)

// classify attaches a kind to an error of the client, and the context's error if that is why the call ended.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	kind := kindOf(err)
	if end := ctx.Err(); end != nil && kind != backend.Denied && kind != backend.Misconfigured && !errors.Is(err, end) {
		err = fmt.Errorf("%w: %w", end, err)
		kind = backend.Unavailable
	}
	return backend.WithKind(err, kind)
}

func kindOf(err error) backend.Kind {
	text := err.Error()
	code := statusOf(err, text)
	_, network := errors.AsType[net.Error](err)
	switch {
	case code == http.StatusForbidden, code == http.StatusUnauthorized, hasText(text, deniedTexts):
		return backend.Denied
	case hasText(text, misconfiguredTexts), code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge:
		return backend.Misconfigured
	case network, code == http.StatusTooManyRequests, code >= http.StatusInternalServerError,
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		hasText(text, unavailableTexts):
		return backend.Unavailable
	}
	return backend.Unknown
}

// statusOf returns the HTTP status behind an error, 0 if there is none.
func statusOf(err error, text string) int {
	if status, ok := errors.AsType[api.StatusError](err); ok {
		return status.Code
	}
	if digits, ok := strings.CutPrefix(text, "Unexpected response code: "); ok {
		code, err := strconv.Atoi(digits)
		if err == nil {
			return code
		}
	}
	return 0
}

func hasText(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
