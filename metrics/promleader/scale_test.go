package promleader_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/metrics"
	"github.com/goleader/leader/metrics/promleader"
)

const (
	manyNames = 10_000
	// maxSeries is what a collector may show, however many names there are.
	maxSeries = 8_000
	// scrapeBar is what a scrape may take.
	scrapeBar = 50 * time.Millisecond
)

// runAll makes a run succeed, one fail and one be skipped under each of n names.
func runAll(t testing.TB, hooks leader.Hooks, n int) {
	t.Helper()
	free := elector(t, newStore(), hooks)
	taken := newStore()
	taken.fail(script{acquire: backend.ErrHeld})
	held := elector(t, taken, hooks)
	for i := range n {
		name := strconv.Itoa(i)
		_, err1 := free.RunIfLeader(t.Context(), name, nothing)
		_, err2 := free.RunIfLeader(t.Context(), name, func(context.Context) error { return errAction })
		_, err3 := held.RunIfLeader(t.Context(), name, nothing)
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatal(err1, err2, err3)
		}
	}
}

// page is what a scraper gets.
func page(t testing.TB, r *prometheus.Registry) string {
	t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{DisableCompression: true}).
		ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if answer.Code != http.StatusOK {
		t.Fatalf("%d: %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// seriesOf counts the lines of a page that are no comments.
func seriesOf(page string) (n int) {
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}

func TestCollector_OfTenThousandNames_StaysBoundedAndIsScrapedQuickly(t *testing.T) {
	opts := &promleader.Options{AOPNames: true}
	few, fewRegistry := register(t, opts)
	runAll(t, few.Hooks(), metrics.DefaultNames+1)
	many, manyRegistry := register(t, opts)
	runAll(t, many.Hooks(), manyNames)

	want, got := seriesOf(page(t, fewRegistry)), seriesOf(page(t, manyRegistry))
	if got != want || got > maxSeries {
		t.Errorf("%d names have %d series, and %d names have %d, want the same and at most %d",
			manyNames, got, metrics.DefaultNames+1, want, maxSeries)
	}
	if n := scrape(t, manyRegistry)["leader_runs_total{name=other,outcome=elected}"]; n != manyNames-metrics.DefaultNames {
		t.Errorf("%v runs are of other names, want %d", n, manyNames-metrics.DefaultNames)
	}

	// Of several scrapes the quickest counts: what else the machine does is no matter.
	quickest := time.Hour
	for range 20 {
		began := time.Now()
		page(t, manyRegistry)
		quickest = min(quickest, time.Since(began))
	}
	t.Logf("%d series are scraped in %v", got, quickest)
	if quickest > slower*scrapeBar {
		t.Errorf("a scrape takes %v, want at most %v", quickest, slower*scrapeBar)
	}
}

func TestCollector_IsScrapedWhileElectorsRun_ConcurrentSafe(t *testing.T) {
	const electors, names = 4, 300
	c, r := register(t, nil)
	var wg sync.WaitGroup
	for range electors {
		wg.Go(func() { runAll(t, c.Hooks(), names) })
	}
	done := make(chan struct{})
	go func() { defer close(done); wg.Wait() }()
	for busy := true; busy; {
		select {
		case <-done:
			busy = false
		default:
			page(t, r)
		}
	}
	total := 0.0
	for name, n := range scrape(t, r) {
		switch {
		case strings.HasPrefix(name, "leader_runs_total"):
			total += n
		case strings.HasPrefix(name, "leader_active_leases"):
			t.Errorf("%s is %v after all runs", name, n)
		}
	}
	if total != electors*names*3 {
		t.Errorf("%v runs, want %d", total, electors*names*3)
	}
}
