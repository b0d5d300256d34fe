package backend_test

import (
	"context"
	"testing"

	"github.com/goleader/leader/backend"
)

// plain is a driver without abilities; its methods are not called.
type plain struct{ backend.Driver }

// waiting is a driver with a Waiter.
type waiting struct{ plain }

func (waiting) AwaitRelease(context.Context, string, string) error { return nil }

// decorated is a decorator with limits of its own.
type decorated struct{ inner backend.Driver }

func (decorated) Limits() backend.Limits   { return backend.Limits{FixedTTL: true} }
func (d decorated) Unwrap() backend.Driver { return d.inner }
func (decorated) Name() string             { return "decorated" }

func (decorated) TryAcquire(context.Context, backend.Request) (backend.Lease, error) { return nil, nil }
func (decorated) Abandon(context.Context, backend.Request) error                     { return nil }
func (decorated) Inspect(context.Context, string) (backend.Holder, error) {
	return backend.Holder{}, nil
}

func TestAs_FindsAnAbilityOfTheDriverItself(t *testing.T) {
	if w, ok := backend.As[backend.Waiter](waiting{}); !ok || w != (waiting{}) {
		t.Errorf("got %v, %v", w, ok)
	}
}

func TestAs_LooksThroughDecorators(t *testing.T) {
	d := decorated{decorated{waiting{}}}
	if w, ok := backend.As[backend.Waiter](d); !ok || w != (waiting{}) {
		t.Errorf("got %v, %v", w, ok)
	}
	if l, ok := backend.As[backend.Limited](d); !ok || !l.Limits().FixedTTL {
		t.Errorf("got %v, %v, want the outermost", l, ok)
	}
}

func TestAs_DoesNotFindWhatIsNotThere(t *testing.T) {
	for _, d := range []backend.Driver{nil, plain{}, waiting{}, decorated{plain{}}, decorated{nil}} {
		if b, ok := backend.As[backend.Breaker](d); ok || b != nil {
			t.Errorf("found %v in %v", b, d)
		}
	}
}

func TestHolder_Free_IsTheZeroHolder(t *testing.T) {
	if !(backend.Holder{}).Free() {
		t.Error("the zero Holder is not free")
	}
	for _, h := range []backend.Holder{{Fence: 1}, {Owner: "me"}, {Kept: true}, {Remaining: 1}} {
		if h.Free() {
			t.Errorf("%+v is free", h)
		}
	}
}

func TestSlotKey_NumbersTheSlots(t *testing.T) {
	if got := backend.SlotKey("key", 12); got != "key#12" {
		t.Errorf("got %q", got)
	}
}
