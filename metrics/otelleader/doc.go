// Package otelleader tells OpenTelemetry what electors do: a [Tracer] makes a span of each run, a [Meter] keeps figures.
//
//	tracer := otelleader.NewTracer(tracerProvider)
//	meter, err := otelleader.NewMeter(meterProvider, nil)
//	elector, err := leader.New(driver, leader.WithHooks(leader.JoinHooks(tracer.Hooks(), meter.Hooks())))
//
// Providers are always given; the global ones are left alone. One tracer and one meter serve all electors of a program.
//
// # Spans
//
// A span "leader.run" lasts from the call of RunIfLeader, or the begin of a campaign's term, until it returns. The action
// runs inside of it, so that spans of the action become its children. Its events are
//
//	acquired, renewed, renewal failed, lost, released, release failed
//
// and its attributes leader.name, leader.node, leader.fence, leader.slot, leader.outcome, leader.reason, leader.holder,
// leader.attempts if there were several, and leader.renewals; how long it waited and held its lease, the times of its events
// tell. It has an error status when the action failed, when it did not run because of an error, and when the lease was lost;
// not when its caller's context ended it. Only the first renewals are events, so that a long term keeps its acquisition:
// [MaxRenewals] of either kind. What happens after the run returned, such as the late release of a lost lease, is in no
// span. A lease from Acquire is no run: its events go to the span of the context it was acquired with.
//
// # Links
//
// Where work is handed on, spans are linked; the attribute leader.link says why.
//
//   - "previous": from a run that got its lease to that of another node, which had the lease before, as far as this tracer
//     knows it: a run of another elector of this process, or of another process that [Tracer.Watch] saw.
//   - "holder": from a run that was skipped to what the holder was doing.
//
// A tracer knows what other processes do if they publish it with their lease:
//
//	elector.RunIfLeader(ctx, name, action, leader.WithMetadata(otelleader.Metadata(ctx, nil)))
//
// That is the span around the call, as the run's own does not exist yet.
//
// # Figures
//
// The figures are those of package promleader, under names from which exporters to Prometheus make the same ones:
// leader.runs, leader.acquire.duration, leader.run.duration, leader.acquire.failures, leader.active_leases,
// leader.leases.acquired, leader.leases.lost, leader.renewals, leader.renewal.failures, leader.renewal.duration,
// leader.releases, leader.release.failures, leader.calls.abandoned, leader.handover.gap, leader.history.records.stored,
// .refused and .dropped. Durations are in seconds. Their attributes are leader.name, leader.outcome, leader.reason,
// leader.cause, leader.kind and leader.op, with the values of package metrics; at most a hundred names are told apart, see
// [MeterOptions].
package otelleader
