package otelleader

import "go.opentelemetry.io/otel/attribute"

// scope is the name of the instrumentation.
const scope = "github.com/goleader/leader/metrics/otelleader"

// Keys of attributes, which are those of the library's log where both have them.
const (
	keyName     = attribute.Key("leader.name")
	keyNode     = attribute.Key("leader.node")
	keyFence    = attribute.Key("leader.fence")
	keySlot     = attribute.Key("leader.slot")
	keyOutcome  = attribute.Key("leader.outcome")
	keyReason   = attribute.Key("leader.reason")
	keyCause    = attribute.Key("leader.cause")
	keyKind     = attribute.Key("leader.kind")
	keyOp       = attribute.Key("leader.op")
	keyHolder   = attribute.Key("leader.holder")
	keyAttempts = attribute.Key("leader.attempts")
	keyTook     = attribute.Key("leader.took")
	keyRenewals = attribute.Key("leader.renewals")
	keyLink     = attribute.Key("leader.link")
	keyError    = attribute.Key("leader.error")
)

// fence is a fence as an attribute, which has no unsigned numbers.
func fence(f uint64) attribute.KeyValue {
	return keyFence.Int64(int64(f)) //nolint:gosec // fences are far below the half of all numbers
}
