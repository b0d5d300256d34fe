package mongoleader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/goleader/leader/backend"
)

func command(code int32, labels ...string) error {
	return mongo.CommandError{Code: code, Labels: labels}
}

func writeFailure(code int) error {
	return mongo.WriteException{WriteErrors: []mongo.WriteError{{Code: code}}}
}

func concernFailure(code int) error {
	return mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: code}}
}

func TestClassify_ByTheServersCode(t *testing.T) {
	refusedLogin := topology.ConnectionError{Wrapped: driver.Error{Code: 18, Name: "AuthenticationFailed"}}
	for _, row := range []struct {
		what string
		err  error
		want backend.Kind
	}{
		{"Unauthorized", command(13), backend.Denied},
		{"AuthenticationFailed", command(18), backend.Denied},
		{"Atlas", command(8000), backend.Denied},
		{"a write that is not authorized", writeFailure(13), backend.Denied},
		{"a refused login", mongo.CommandError{Code: 18, Wrapped: refusedLogin}, backend.Denied},
		{"TypeMismatch", command(14), backend.Misconfigured},
		{"$subtract of a string", command(16556), backend.Misconfigured},
		{"a validator", writeFailure(121), backend.Misconfigured},
		{"a view", command(166), backend.Misconfigured},
		{"a closed client", mongo.ErrClientDisconnected, backend.Misconfigured},
		{"NotWritablePrimary", command(10107), backend.Unavailable},
		{"PrimarySteppedDown", command(189), backend.Unavailable},
		{"WriteConflict", command(112), backend.Unavailable},
		{"MaxTimeMSExpired", command(50), backend.Unavailable},
		{"no majority in time", concernFailure(64), backend.Unavailable},
		{"no majority at all", concernFailure(100), backend.Unavailable},
		{"a lost connection", command(0, "NetworkError"), backend.Unavailable},
		{"a dial", &net.OpError{Op: "dial", Err: io.EOF}, backend.Unavailable},
		{"a handshake", topology.ConnectionError{Wrapped: io.EOF}, backend.Unavailable},
		{"no server", topology.ServerSelectionError{Wrapped: io.EOF}, backend.Unavailable},
		{"another code", command(4711), backend.Unknown},
		{"another error", io.ErrShortWrite, backend.Unknown},
	} {
		err := classify(t.Context(), row.err)
		if got := backend.KindOf(err); got != row.want {
			t.Errorf("%s is %v, want %v", row.what, got, row.want)
		}
		if !errors.Is(err, row.err) && err.Error() != row.err.Error() {
			t.Errorf("%s became %v", row.what, err)
		}
	}
	if err := classify(t.Context(), nil); err != nil {
		t.Errorf("nil became %v", err)
	}
}

func TestClassify_KeepsTheDriversErrorWithItsLabels(t *testing.T) {
	err := fmt.Errorf("guard: %w", classify(t.Context(), command(112, "TransientTransactionError")))
	if labeled, ok := errors.AsType[mongo.LabeledError](err); !ok || !labeled.HasErrorLabel("TransientTransactionError") {
		t.Errorf("%v has lost its label", err)
	}
	if answer, ok := errors.AsType[mongo.CommandError](err); !ok || answer.Code != 112 {
		t.Errorf("%v has lost its code", err)
	}
}

func TestClassify_AddsTheErrorOfAContextThatHasEnded(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	soon, stop := context.WithTimeout(t.Context(), early/2)
	defer stop()
	later, end := context.WithTimeout(t.Context(), time.Hour)
	defer end()
	timeout := topology.ConnectionError{Wrapped: context.DeadlineExceeded}
	slow := command(0, "NetworkTimeoutError")
	wraps := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want an error that wraps %v", what, err, want)
		}
	}
	wraps("canceled", classify(canceled, command(0, "NetworkError")), context.Canceled)
	wraps("given up by the server", classify(later, command(50)), context.DeadlineExceeded)
	wraps("given up a little early", classify(soon, slow), context.DeadlineExceeded)
	wraps("given up by the driver", classify(later, timeout), context.DeadlineExceeded)
	if err := classify(later, slow); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a timeout long before the deadline became %v", err)
	}
	if err := classify(canceled, command(13)); errors.Is(err, context.Canceled) {
		t.Errorf("a refusal became %v", err)
	}
}

func TestOnlyDuplicates_IsFalseForAnythingElse(t *testing.T) {
	duplicate := mongo.BulkWriteError{WriteError: mongo.WriteError{Code: 11000}}
	for _, row := range []struct {
		what string
		err  error
		want bool
	}{
		{"duplicates", mongo.BulkWriteException{WriteErrors: []mongo.BulkWriteError{duplicate, duplicate}}, true},
		{"another write error", mongo.BulkWriteException{
			WriteErrors: []mongo.BulkWriteError{duplicate, {WriteError: mongo.WriteError{Code: 13}}},
		}, false},
		{"no majority", mongo.BulkWriteException{
			WriteErrors:       []mongo.BulkWriteError{duplicate},
			WriteConcernError: &mongo.WriteConcernError{Code: 64},
		}, false},
		{"a lost connection", io.EOF, false},
	} {
		if got := onlyDuplicates(row.err); got != row.want {
			t.Errorf("%s: %t", row.what, got)
		}
	}
}
