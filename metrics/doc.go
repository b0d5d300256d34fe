// Package metrics turns what the hooks of electors tell into figures. It decides what is counted, in which words, and for
// how many names; a [Sink] keeps the figures for a monitoring system. Packages promleader and otelleader, in modules of
// their own below this one, are such sinks for Prometheus and OpenTelemetry. Whoever has another system writes a sink:
//
//	observer := metrics.NewObserver(sink, nil)
//	elector, err := leader.New(driver, leader.WithHooks(observer.Hooks()))
//
// Every value that may become a label is from a short list, given at the functions [Outcome], [Cause] and [Kind]; only
// names are not. They are bounded by a function, by default [FirstNames] of [DefaultNames], because a program may make
// a name of each of its customers, and each name costs a monitoring system some sixty series.
//
// Hooks do not tell everything. A waiter does not know since when the lease that it gets was free; [Observer.Watch]
// follows a name and measures that.
package metrics
