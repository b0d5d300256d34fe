// Package promleader keeps the figures of electors for Prometheus.
//
//	collector := promleader.New(nil)
//	prometheus.MustRegister(collector)
//	elector, err := leader.New(driver, leader.WithHooks(collector.Hooks()))
//
// One collector serves all electors of a program; hooks of others are joined by [leader.JoinHooks]. The metrics are
//
//	leader_runs_total{name,outcome,reason}        runs, and terms of campaigns, that have ended
//	leader_acquire_duration_seconds{name}         from the call until the lease was acquired, of runs that got it
//	leader_run_duration_seconds{name}             how long those runs held their leases
//	leader_active_leases{name}                    leases held now
//	leader_acquire_failures_total{name,kind}      attempts at which the store failed, also those of campaigns
//	leader_leases_acquired_total{name}
//	leader_leases_lost_total{name,cause}
//	leader_renewals_total{name}
//	leader_renewal_failures_total{name,kind}
//	leader_renewal_duration_seconds               what the store took for renewals
//	leader_releases_total{name}
//	leader_release_failures_total{name,kind}
//	leader_calls_abandoned_total{name,op}         those given up because the store's client did not return in time
//	leader_handover_gap_seconds{name}             for how long nobody led, of names given to Watch
//	leader_history_records_stored_total           of the recorder given in the options, as are the next two
//	leader_history_records_refused_total
//	leader_history_records_dropped_total
//
// The values of outcome, reason, cause, kind and op are those of package metrics. A lease from Acquire is in the figures of
// leases, renewals and releases, but is no run. At most a hundred names have series of their own, see [Options.Names];
// the series of a name begin when it is first used, with those an alert looks at being 0. Labels that tell one process or
// store from another are the scraper's, or those of prometheus.WrapRegistererWith.
package promleader
