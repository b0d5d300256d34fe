package hazelcastleader

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client/hzerrors"

	"github.com/goleader/leader/backend"
)

func TestClassify_SaysWhatAnotherTryIsWorth(t *testing.T) {
	other := errors.New("something else")
	for _, c := range []struct {
		err  error
		want backend.Kind
	}{
		{hzerrors.ErrAuthentication, backend.Denied},
		{hzerrors.ErrAccessControl, backend.Denied},
		{hzerrors.ErrClientNotActive, backend.Misconfigured},
		{hzerrors.ErrHazelcastSerialization, backend.Misconfigured},
		{hzerrors.ErrTargetDisconnected, backend.Unavailable},
		{hzerrors.ErrMemberLeft, backend.Unavailable},
		{hzerrors.ErrSplitBrainProtection, backend.Unavailable},
		{context.Canceled, backend.Unavailable},
		{backend.WithKind(other, backend.Misconfigured), backend.Misconfigured},
		{other, backend.Unknown},
	} {
		err := classify(t.Context(), fmt.Errorf("call: %w", c.err))
		if got := backend.KindOf(err); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%v: %v of kind %v, want %v", c.err, err, got, c.want)
		}
	}
	if err := classify(t.Context(), nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

func TestClassify_TellsTheCallersContextFromTheTimeOfOneTry(t *testing.T) {
	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if err := classify(over, hzerrors.ErrIO); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	err := classify(t.Context(), context.DeadlineExceeded)
	if errors.Is(err, context.DeadlineExceeded) || backend.KindOf(err) != backend.Unavailable {
		t.Errorf("before the deadline: %v of kind %v", err, backend.KindOf(err))
	}
	// What the member said for good is not hidden by a context that has ended meanwhile.
	if err := classify(over, hzerrors.ErrAccessControl); backend.KindOf(err) != backend.Denied {
		t.Errorf("a refusal after the deadline: %v", err)
	}
}

func TestBrief_LeavesOutTheStackOfTheMember(t *testing.T) {
	for text, want := range map[string]string{
		"got exception from server:\n com.hazelcast.X: no such thing\n \n a.b(C.java:1)\n d.e(F.java:2): again": "member: " +
			"com.hazelcast.X: no such thing",
		"a line\nand another": "a line",
		"a line":              "a line",
	} {
		if got := (brief{errors.New(text)}).Error(); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
