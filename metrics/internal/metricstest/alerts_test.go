package metricstest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// scrape is how often the series of a test have a value, and its rules are evaluated.
const scrape = 15 * time.Second

// TestAlerts_Fire evaluates the rules as Prometheus does. A series is its values at each scrape: "1x40" is 1 and then 40
// times the same, "0+2x40" grows by 2 each time, "stale" is the end of a process.
func TestAlerts_Fire(t *testing.T) {
	rows := map[string]struct {
		alert       string
		series      []string
		length      time.Duration
		first, last time.Duration // when it fires; never if both are 0
	}{
		"nobody leads": {
			alert: "LeaderMissing",
			series: []string{
				`leader_active_leases{job="j",instance="a",name="n"} 1x40 0x80`,
				`leader_handover_gap_seconds_count{job="j",instance="a",name="n"} 0x120`,
			},
			length: 30 * time.Minute, first: 12*time.Minute + scrape, last: 30 * time.Minute,
		},
		"all processes are gone": {
			alert: "LeaderMissing",
			series: []string{
				`leader_active_leases{job="j",instance="a",name="n"} 1x40 stale`,
				`leader_active_leases{job="j",instance="b",name="n"} 0x40 stale`,
				`leader_handover_gap_seconds_count{job="j",instance="b",name="n"} 0x40 stale`,
			},
			length: 30 * time.Minute, first: 12*time.Minute + scrape, last: 30 * time.Minute,
		},
		"another leads": {
			alert: "LeaderMissing",
			series: []string{
				`leader_active_leases{job="j",instance="a",name="n"} 1x40 stale`,
				`leader_active_leases{job="j",instance="b",name="n"} 0x43 1x80`,
				`leader_handover_gap_seconds_count{job="j",instance="b",name="n"} 0x40 1x83`,
			},
			length: 30 * time.Minute,
		},
		"nobody is to lead all the time": {
			alert:  "LeaderMissing",
			series: []string{`leader_active_leases{job="j",instance="a",name="n"} 1x40 0x80`},
			length: 30 * time.Minute,
		},
		// A lease of a minute, which is renewed every 20 s, and lost at 11m15s.
		"renewals fail": {
			alert: "LeaderRenewalsFailing",
			series: []string{
				`leader_renewals_total{job="j",instance="a",name="n"} 0+0.75x40 30x60`,
				`leader_renewal_failures_total{job="j",instance="a",name="n",kind="unavailable"} 0x41 4 11 18 25x60`,
				`leader_active_leases{job="j",instance="a",name="n"} 1x44 0x60`,
			},
			length: 25 * time.Minute, first: 10*time.Minute + 2*scrape, last: 11 * time.Minute,
		},
		"one renewal fails": {
			alert: "LeaderRenewalsFailing",
			series: []string{
				`leader_renewals_total{job="j",instance="a",name="n"} 0+0.75x100`,
				`leader_renewal_failures_total{job="j",instance="a",name="n",kind="unavailable"} 0x40 1x60`,
				`leader_active_leases{job="j",instance="a",name="n"} 1x100`,
			},
			length: 25 * time.Minute,
		},
		"a campaign cannot reach its store": {
			alert:  "LeaderStoreUnavailable",
			series: []string{`leader_acquire_failures_total{job="j",instance="a",name="n",kind="unavailable"} 0x40 1+0.5x60`},
			length: 25 * time.Minute, first: 15*time.Minute + scrape, last: 25 * time.Minute,
		},
		"one attempt of a standby fails": {
			alert:  "LeaderStoreUnavailable",
			series: []string{`leader_acquire_failures_total{job="j",instance="a",name="n",kind="unavailable"} 0x40 1x60`},
			length: 25 * time.Minute,
		},
		"an hourly job cannot reach its store": {
			alert: "LeaderRunMissed",
			series: []string{
				`leader_runs_total{job="j",instance="a",name="n",outcome="not_run",reason="unavailable"} 0x40 1x239`,
				`leader_leases_acquired_total{job="j",instance="a",name="n"} 7x279`,
			},
			length: 70 * time.Minute, first: 15*time.Minute + scrape, last: 25*time.Minute - scrape,
		},
		"the next run of a job is made": {
			alert: "LeaderRunMissed",
			series: []string{
				`leader_runs_total{job="j",instance="a",name="n",outcome="not_run",reason="unavailable"} 0x40 1x239`,
				`leader_leases_acquired_total{job="j",instance="a",name="n"} 0x20 1x19 1x19 2x19 3x19 4x19 5x19 6x19`,
			},
			length: 40 * time.Minute,
		},
		"another process makes the run": {
			alert: "LeaderRunMissed",
			series: []string{
				`leader_runs_total{job="j",instance="a",name="n",outcome="not_run",reason="unavailable"} 0x40 1x100`,
				`leader_leases_acquired_total{job="j",instance="b",name="n"} 0+1x140`,
			},
			length: 35 * time.Minute,
		},
		"the store refuses": {
			alert:  "LeaderStoreRefuses",
			series: []string{`leader_acquire_failures_total{job="j",instance="a",name="n",kind="denied"} 0x40 1x239`},
			length: 70 * time.Minute, first: 10*time.Minute + scrape, last: 25*time.Minute - scrape,
		},
		"the program asks for too much": {
			alert:  "LeaderStoreRefuses",
			series: []string{`leader_runs_total{job="j",instance="a",name="n",outcome="not_run",reason="unsupported"} 0x40 1x239`},
			length: 70 * time.Minute, first: 10*time.Minute + scrape, last: 25*time.Minute - scrape,
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			at := firing(t, row.alert, row.series, row.length)
			first, last := time.Duration(0), time.Duration(0)
			if len(at) > 0 {
				first, last = at[0], at[len(at)-1]
			}
			if first != row.first || last != row.last {
				t.Errorf("%s fires from %v to %v, want %v to %v", row.alert, first, last, row.first, row.last)
			}
		})
	}
}

// firing returns the instants at which an alert fires.
func firing(t *testing.T, name string, series []string, length time.Duration) (at []time.Duration) {
	t.Helper()
	rule, pending := named(t, name)
	store := promqltest.LoadedStorage(t, fmt.Sprintf("load %v\n\t%s", scrape, strings.Join(series, "\n\t")))
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 100_000, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{}),
	})
	since := time.Duration(-1) // when it became true
	for now := time.Duration(0); now <= length; now += scrape {
		query, err := engine.NewInstantQuery(t.Context(), store, nil, rule.Expr, time.Unix(0, 0).Add(now))
		if err != nil {
			t.Fatal(err)
		}
		found, err := query.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case len(found) == 0:
			since = -1
		case since < 0:
			since = now
		}
		if since >= 0 && now-since >= pending {
			at = append(at, now)
		}
		query.Close()
	}
	return at
}

// named returns an alert, and for how long it must be true.
func named(t *testing.T, name string) (a alert, pending time.Duration) {
	t.Helper()
	for _, a := range alerts(t) {
		if a.Alert != name {
			continue
		}
		if a.For == "" {
			return a, 0
		}
		pending, err := time.ParseDuration(a.For)
		if err != nil {
			t.Fatal(err)
		}
		return a, pending
	}
	t.Fatalf("no alert %s", name)
	return a, 0
}
