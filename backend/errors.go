package backend

import "errors"

var (
	// ErrHeld says that another token holds the key. It is an ordinary answer, not a failure.
	ErrHeld = errors.New("held by another")
	// ErrLost says that a lease is over for good, or that a token has been spent.
	ErrLost = errors.New("no longer held")
	// ErrConflict says that a compare-and-set found another version.
	ErrConflict = errors.New("changed by another")
)

// HeldError is [ErrHeld] with what the attempt learned on the way. A zero Holder in it means "held, by whom is unknown".
type HeldError struct{ Holder Holder }

func (e *HeldError) Error() string { return ErrHeld.Error() }

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Kind classifies a store's error; attach it with [WithKind].
type Kind uint8

const (
	// Unknown errors may pass; the engine tries again while there is time.
	Unknown Kind = iota
	// Unavailable stores cannot be reached, have no quorum or are overloaded; the engine tries again.
	Unavailable
	// Denied is a refusal by authentication or authorization; trying again does not help.
	Denied
	// Misconfigured is a missing table, a key of a foreign type, a bad option; trying again does not help.
	Misconfigured
)

// String returns the kind in lower case.
func (k Kind) String() string {
	switch k {
	case Unavailable:
		return "unavailable"
	case Denied:
		return "denied"
	case Misconfigured:
		return "misconfigured"
	case Unknown:
	}
	return "unknown"
}

// WithKind classifies err, whose text and chain stay as they are; a nil err stays nil. [KindOf] reads it back.
func WithKind(err error, k Kind) error {
	if err == nil {
		return nil
	}
	return kindError{err, k}
}

// KindOf returns the outermost kind attached to err, Unknown if there is none.
func KindOf(err error) Kind {
	if k, ok := errors.AsType[kindError](err); ok {
		return k.kind
	}
	return Unknown
}

type kindError struct {
	error
	kind Kind
}

func (e kindError) Unwrap() error { return e.error }
