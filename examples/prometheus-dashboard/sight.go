package main

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/metrics/promleader"
	"github.com/goleader/leader/status"
)

const pagePath = status.DefaultPath

// sight is what lets people see who leads: metrics, a history and a page.
type sight struct {
	registry  *prometheus.Registry
	collector *promleader.Collector
	recorder  *history.Recorder
	page      *status.Page
}

func observe(store backend.Driver) (*sight, error) {
	records := history.NewMemory(0)
	recorder := history.NewRecorder(records, &history.Options{Node: *node})
	page, err := status.New(store, &status.Options{History: status.InMemory(records)})
	if err != nil {
		return nil, err
	}
	page.AddNames(reportName, serviceName)
	s := &sight{
		registry:  prometheus.NewRegistry(),
		collector: promleader.New(&promleader.Options{History: recorder}),
		recorder:  recorder,
		page:      page,
	}
	s.registry.MustRegister(s.collector, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s, nil
}

// hooks are those of the elector. All that people see comes from them and from the store.
func (s *sight) hooks() leader.Hooks {
	return leader.JoinHooks(s.collector.Hooks(), s.recorder.Hooks(), s.page.Hooks())
}

// watch measures for how long nobody leads the service.
func (s *sight) watch(ctx context.Context, elector leader.Elector) {
	if err := s.collector.Watch(ctx, elector, serviceName); err != nil {
		slog.WarnContext(ctx, "hand-overs are not measured any more", "err", err)
	}
}

func (s *sight) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /healthz", s.page.Health())
	mux.Handle("/management/", s.page)
	mux.Handle("GET /{$}", http.RedirectHandler(pagePath+"/", http.StatusFound))
	return mux
}

// close stores what waits to be stored.
func (s *sight) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.recorder.Close(ctx) // what is left is lost with the process anyway
	s.page.Close()
}
