package backend_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/goleader/leader/backend"
)

func TestWithKind_KeepsTheTextAndTheChain(t *testing.T) {
	err := backend.WithKind(fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), backend.Unavailable)
	if err.Error() != "reading: unexpected EOF" {
		t.Errorf("text %q", err)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("the client's error is gone")
	}
}

func TestWithKind_OfNilIsNil(t *testing.T) {
	if err := backend.WithKind(nil, backend.Denied); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestKindOf_IsTheOutermostKind(t *testing.T) {
	denied := backend.WithKind(io.EOF, backend.Denied)
	rows := []struct {
		err  error
		want backend.Kind
	}{
		{nil, backend.Unknown},
		{io.EOF, backend.Unknown},
		{denied, backend.Denied},
		{fmt.Errorf("wrapped: %w", denied), backend.Denied},
		{errors.Join(io.EOF, denied), backend.Denied},
		{backend.WithKind(denied, backend.Misconfigured), backend.Misconfigured},
		{backend.WithKind(fmt.Errorf("wrapped: %w", denied), backend.Unknown), backend.Unknown},
	}
	for _, row := range rows {
		if got := backend.KindOf(row.err); got != row.want {
			t.Errorf("kind of %v is %v, want %v", row.err, got, row.want)
		}
	}
}

func TestKind_String_IsLowerCase(t *testing.T) {
	for kind, want := range map[backend.Kind]string{
		backend.Unknown: "unknown", backend.Unavailable: "unavailable", backend.Denied: "denied",
		backend.Misconfigured: "misconfigured", 200: "unknown",
	} {
		if got := kind.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestHeldError_IsErrHeld(t *testing.T) {
	err := fmt.Errorf("wrapped: %w", &backend.HeldError{Holder: backend.Holder{Owner: "me"}})
	held, ok := errors.AsType[*backend.HeldError](err)
	if !errors.Is(err, backend.ErrHeld) || errors.Is(err, backend.ErrLost) || !ok || held.Holder.Owner != "me" {
		t.Errorf("got %v, %+v", err, held)
	}
}
