package otelleader

import (
	"errors"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/goleader/leader"
)

// describe puts what is known of a run at its end into its span.
func describe(r *run, result leader.RunResult, outcome, reason string) {
	attrs := append(r.attrs[1:1], keyOutcome.String(outcome))
	if result.Attempts > 1 {
		attrs = append(attrs, keyAttempts.Int(result.Attempts))
	}
	if reason != "" {
		attrs = append(attrs, keyReason.String(reason))
	}
	if l := result.Lease; l.Name != "" {
		attrs = append(attrs, keyNode.String(l.Node), fence(l.Fence))
		if l.Slot > 0 {
			attrs = append(attrs, keySlot.Int(l.Slot))
		}
		if n := r.renewals.Load(); n > 0 {
			attrs = append(attrs, keyRenewals.Int64(n))
		}
	}
	if result.Holder.Node != "" {
		attrs = append(attrs, keyHolder.String(result.Holder.Node))
	}
	r.span.SetAttributes(attrs...)
}

// judge gives the span an error if the run went wrong. A skip is none, nor is an end that the caller wanted.
func judge(span trace.Span, result leader.RunResult, err error) {
	for _, e := range []error{err, result.Err, lostIn(result)} {
		if e != nil {
			span.RecordError(e)
			span.SetStatus(codes.Error, e.Error())
			return
		}
	}
}

// lostIn is why the lease of a run was lost; nil if it was not, or its holder released it.
func lostIn(result leader.RunResult) error {
	if errors.Is(result.Lost, leader.ErrReleased) {
		return nil
	}
	return result.Lost
}
