package promleader_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

var (
	errDown   = backend.WithKind(errors.New("connection refused"), backend.Unavailable)
	errAction = errors.New("the action failed")
)

// store is a local store that fails as a test says.
type store struct {
	backend.Driver

	mu     sync.Mutex
	script script
}

// script is how requests fail; nil means that they do not.
type script struct{ acquire, renew, release error }

func (s *store) fail(how script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = how
}

func (s *store) how() script {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.script
}

func newStore() *store { return &store{Driver: local.New()} }

func (s *store) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if err := s.how().acquire; err != nil {
		return nil, err
	}
	l, err := s.Driver.TryAcquire(ctx, req)
	if err != nil {
		return nil, err
	}
	return failing{l, s}, nil
}

type failing struct {
	backend.Lease

	s *store
}

func (f failing) Renew(ctx context.Context, ttl time.Duration) error {
	if err := f.s.how().renew; err != nil {
		return err
	}
	return f.Lease.Renew(ctx, ttl)
}

func (f failing) Release(ctx context.Context, keep time.Duration) error {
	if err := f.s.how().release; err != nil {
		return err
	}
	return f.Lease.Release(ctx, keep)
}

func elector(t testing.TB, d backend.Driver, hooks leader.Hooks) *leader.Single {
	t.Helper()
	e, err := leader.New(d, leader.WithHooks(hooks), leader.WithLogger(slog.New(slog.DiscardHandler)),
		leader.WithLeaseTime(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// scrape returns what a registry has, as name{label="value"}; of a histogram or summary its _count and _sum. Zeros are
// left out.
func scrape(t testing.TB, r prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	figures := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name, labels := f.GetName(), labelsOf(m)
			switch {
			case m.GetCounter() != nil:
				figures[name+labels] = m.GetCounter().GetValue()
			case m.GetGauge() != nil:
				figures[name+labels] = m.GetGauge().GetValue()
			case m.GetHistogram() != nil:
				figures[name+"_count"+labels] = float64(m.GetHistogram().GetSampleCount())
				figures[name+"_sum"+labels] = m.GetHistogram().GetSampleSum()
			case m.GetSummary() != nil:
				figures[name+"_count"+labels] = float64(m.GetSummary().GetSampleCount())
				figures[name+"_sum"+labels] = m.GetSummary().GetSampleSum()
			}
		}
	}
	maps.DeleteFunc(figures, func(_ string, v float64) bool { return v == 0 })
	return figures
}

func labelsOf(m *dto.Metric) string {
	var labels []string
	for _, l := range m.GetLabel() {
		if l.GetValue() != "" {
			labels = append(labels, l.GetName()+"="+l.GetValue())
		}
	}
	if labels == nil {
		return ""
	}
	return "{" + strings.Join(labels, ",") + "}"
}

// check fails the test for each figure that differs from want.
func check(t testing.TB, got, want map[string]float64) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is %s, and is not wanted", name, text(got[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s is %s, want %s", name, text(got[name]), text(want[name]))
		}
	}
}

func text(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func nothing(context.Context) error { return nil }

func works(d time.Duration) leader.Action {
	return func(context.Context) error {
		time.Sleep(d)
		return nil
	}
}
