package main

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/examples/internal/exampletest"
)

// watchdog is how long a test waits for what must happen in seconds.
const watchdog = time.Minute

// site is a running replica.
type site struct {
	*exampletest.Process

	t   *testing.T
	url string
}

func start(t *testing.T, program, file, node string) *site {
	t.Helper()
	p := exampletest.Start(t, program, "-file", file, "-node", node, "-listen", "127.0.0.1:0", "-term", "1h", "-fails", "0")
	m := p.Await(t, `metrics +(http://[0-9.:]+)/metrics`)
	p.Await(t, `health +http`)
	return &site{p, t, m[1]}
}

// get fails the test unless the answer is 200.
func (s *site) get(path string) string {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s, %v\n%s", path, answer.Status, err, body)
	}
	return string(body)
}

// figure is the value of a series, 0 without it.
func (s *site) figure(series string) float64 {
	s.t.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (.+)$`).FindStringSubmatch(s.get("/metrics"))
	if m == nil {
		return 0
	}
	value, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return value
}

// await waits until one of the replicas has a series of at least that value, and returns it and the others.
func await(t *testing.T, series string, least float64, sites ...*site) (first *site, others []*site) {
	t.Helper()
	for began := time.Now(); time.Since(began) < watchdog; time.Sleep(20 * time.Millisecond) {
		for i, s := range sites {
			if s.figure(series) >= least {
				return s, append(append(others, sites[:i]...), sites[i+1:]...)
			}
		}
	}
	t.Fatalf("no replica has %s of %v:\n%s", series, least, sites[0].get("/metrics"))
	return nil, nil
}

const (
	leads    = `leader_active_leases{name="service"}`
	reported = `leader_runs_total{name="report",outcome="elected",reason=""}`
	gaps     = `leader_handover_gap_seconds_count{name="service"}`
)

// locks are what the page's JSON says of each name.
func (s *site) locks() map[string]string {
	s.t.Helper()
	var snapshot struct {
		Locks []struct {
			Name     string
			LeaderID string `json:"leaderId"`
		}
	}
	if err := json.Unmarshal([]byte(s.get(pagePath)), &snapshot); err != nil {
		s.t.Fatal(err)
	}
	leaders := make(map[string]string)
	for _, l := range snapshot.Locks {
		leaders[l.Name] = l.LeaderID
	}
	return leaders
}

func TestPrometheusDashboard_ShowsWhoLeadsAndAHandOver(t *testing.T) {
	program, file := exampletest.Build(t), filepath.Join(t.TempDir(), "leader.db")
	a, b := start(t, program, file, "a"), start(t, program, file, "b")
	names := map[*site]string{a: "a", b: "b"}

	leader, others := await(t, leads, 1, a, b)
	standby := others[0]
	if n := standby.figure(leads); n != 0 {
		t.Errorf("the standby has %v leases of the service", n)
	}
	await(t, reported, 3, a, b)
	for _, s := range []*site{a, b} {
		if got := s.locks(); got[serviceName] != names[leader] {
			t.Errorf("%s says that %q leads the service, want %q; all is %v", names[s], got[serviceName], names[leader], got)
		}
		if _, ok := s.locks()[reportName]; !ok {
			t.Errorf("%s does not show the report", names[s])
		}
		if page := s.get("/"); !strings.Contains(page, "<html") {
			t.Errorf("%s has no page:\n%s", names[s], page)
		}
		s.get("/healthz")
	}

	leader.Kill(t)
	await(t, leads, 1, standby)
	await(t, gaps, 1, standby)
	if got := standby.locks(); got[serviceName] != names[standby] {
		t.Errorf("after the hand-over %q leads the service, want %q", got[serviceName], names[standby])
	}
	standby.Interrupt(t)
	if code := standby.Wait(t); code != 0 {
		t.Errorf("it ended with %d when it was asked to", code)
	}
}
