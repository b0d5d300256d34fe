package metricstest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/goleader/leader/history"
	"github.com/goleader/leader/metrics"
	"github.com/goleader/leader/metrics/promleader"
)

const docs = "../../../docs"

// added are the labels that a scraper adds, and that of buckets.
var added = []string{"job", "instance", "le"}

// values are what the labels of fixed words may be.
var values = map[string][]string{
	"outcome": {metrics.Elected, metrics.ActionFailed, metrics.Skipped, metrics.NotRun},
	"reason": {
		"", metrics.Contended, metrics.NotPreferred, metrics.AlreadyRan, metrics.StoreFailed, metrics.Lost,
		metrics.Unguarded, metrics.NoReturn, metrics.Canceled, metrics.Reentrant, metrics.Unsupported, metrics.Unknown,
		metrics.Unavailable, metrics.Denied, metrics.Misconfigured, metrics.Other,
	},
	"cause": {
		metrics.Expired, metrics.TakenOver, metrics.MaxHold, metrics.HandBack, metrics.Abandoned, metrics.Other,
	},
	"kind": {metrics.Unknown, metrics.Unavailable, metrics.Denied, metrics.Misconfigured},
	"op":   {"acquire", "renew", "release"},
}

// described are the labels of all metrics that promleader has, by their names.
func described(t *testing.T, opts promleader.Options) map[string][]string {
	t.Helper()
	opts.History = history.NewRecorder(history.NewMemory(1), nil)
	descs := make(chan *prometheus.Desc, 100)
	promleader.New(&opts).Describe(descs)
	close(descs)
	form := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	all := make(map[string][]string)
	for d := range descs {
		m := form.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("strange description %s", d)
		}
		labels := strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })
		names := []string{m[1]}
		if strings.HasSuffix(m[1], "_seconds") {
			names = []string{m[1] + "_bucket", m[1] + "_sum", m[1] + "_count"}
		}
		for _, name := range names {
			all[name] = labels
		}
	}
	return all
}

// checkQuery fails the test unless a query parses, and asks only for metrics, labels and words that exist.
func checkQuery(t *testing.T, figures map[string][]string, query string) {
	t.Helper()
	for _, problem := range problems(figures, query) {
		t.Errorf("%s: %s", query, problem)
	}
}

func problems(figures map[string][]string, query string) (list []string) {
	expr, err := metricsql.Parse(query)
	if err != nil {
		return []string{err.Error()}
	}
	asked := 0
	metricsql.VisitAll(expr, func(e metricsql.Expr) {
		switch e := e.(type) {
		case *metricsql.MetricExpr:
			asked++
			for _, filters := range e.LabelFilterss {
				list = append(list, problemsOfFilters(figures, filters)...)
			}
		case *metricsql.AggrFuncExpr:
			list = append(list, problemsOfLabels(e.Modifier.Args)...)
		case *metricsql.BinaryOpExpr:
			list = append(list, problemsOfLabels(e.GroupModifier.Args)...)
		}
	})
	if asked == 0 {
		list = append(list, "it asks for no metric")
	}
	return list
}

func problemsOfFilters(figures map[string][]string, filters []metricsql.LabelFilter) (list []string) {
	if len(filters) == 0 || filters[0].Label != "__name__" {
		return []string{"a selector has no name"}
	}
	name := filters[0].Value
	labels, ok := figures[name]
	if !ok {
		return []string{"there is no metric " + name}
	}
	for _, f := range filters[1:] {
		if !slices.Contains(labels, f.Label) && !slices.Contains(added, f.Label) {
			list = append(list, name+" has no label "+f.Label)
		}
		words, fixed := values[f.Label]
		for word := range strings.SplitSeq(f.Value, "|") {
			if fixed && !slices.Contains(words, word) {
				list = append(list, f.Label+" is never "+word)
			}
		}
	}
	return list
}

// problemsOfLabels are those that no metric has.
func problemsOfLabels(labels []string) (list []string) {
	known := append(slices.Collect(maps.Keys(values)), append(added, "name")...)
	for _, l := range labels {
		if !slices.Contains(known, l) {
			list = append(list, "no metric has a label "+l)
		}
	}
	return list
}

func TestProblems_AreFound(t *testing.T) {
	figures := described(t, promleader.Options{})
	for query, want := range map[string]string{
		`leader_runs_total{outcome="elected"} > 0`:                         "",
		`sum by (name, le) (rate(leader_run_duration_seconds_bucket[5m]))`: "",
		`leader_runs > 0`:                                   "there is no metric leader_runs",
		`leader_run_duration_seconds > 0`:                   "there is no metric leader_run_duration_seconds",
		`leader_runs_total{cause="expired"}`:                "leader_runs_total has no label cause",
		`leader_runs_total{reason=~"denied|refused"}`:       "reason is never refused",
		`sum by (lock) (leader_active_leases)`:              "no metric has a label lock",
		`leader_runs_total and on (lock) leader_runs_total`: "no metric has a label lock",
		`vector(1)`: "it asks for no metric",
	} {
		if got := strings.Join(problems(figures, query), ", "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if len(problems(figures, "sum by (name (")) == 0 {
		t.Error("what is no query has no problem")
	}
}

// rules is a file of alerts as Prometheus reads it. Unknown fields are an error.
type rules struct {
	Groups []struct {
		Name  string
		Rules []alert
	}
}

type alert struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	file, err := os.Open(filepath.Join(docs, "operations", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	var r rules
	if err := decoder.Decode(&r); err != nil {
		t.Fatal(err)
	}
	var list []alert
	for _, g := range r.Groups {
		if g.Name == "" {
			t.Error("a group has no name")
		}
		list = append(list, g.Rules...)
	}
	if len(list) == 0 {
		t.Fatal("no alerts")
	}
	return list
}

func TestAlerts_AskForWhatExists(t *testing.T) {
	figures := described(t, promleader.Options{})
	seen := make(map[string]bool)
	duration := regexp.MustCompile(`^(\d+[smh])?$`)
	for _, a := range alerts(t) {
		if a.Alert == "" || seen[a.Alert] {
			t.Errorf("an alert has no name, or that of another: %+v", a)
		}
		seen[a.Alert] = true
		checkQuery(t, figures, a.Expr)
		if !duration.MatchString(a.For) {
			t.Errorf("%s: for %q is no duration", a.Alert, a.For)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
			t.Errorf("%s: severity %q", a.Alert, a.Labels["severity"])
		}
		for _, field := range []string{"summary", "description"} {
			if a.Annotations[field] == "" {
				t.Errorf("%s has no %s", a.Alert, field)
			}
		}
		if want := "docs/operations.md#" + strings.ToLower(a.Alert); a.Annotations["runbook"] != want {
			t.Errorf("%s: runbook %q, want %q", a.Alert, a.Annotations["runbook"], want)
		}
	}
}

// queries returns what is under the key "expr", however deep.
func queries(v any) (list []string) {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if query, ok := inner.(string); ok && key == "expr" {
				list = append(list, query)
			}
			list = append(list, queries(inner)...)
		}
	case []any:
		for _, inner := range v {
			list = append(list, queries(inner)...)
		}
	}
	return list
}

func TestDashboard_AsksForWhatExists(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docs, "operations", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			ID                 int
			Title, Description string
			Type               string
			GridPos            struct{ X, Y, W, H int }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	ids := make(map[int]bool)
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %+v has the number of another, no title, or no room", p)
		}
		if p.Type != "row" && p.Description == "" {
			t.Errorf("panel %q says nothing of itself", p.Title)
		}
		ids[p.ID] = true
	}
	var all any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	list := queries(all)
	if len(list) < len(dashboard.Panels) {
		t.Fatalf("only %d queries", len(list))
	}
	figures, used := described(t, promleader.Options{}), strings.Join(list, "\n")
	for _, query := range list {
		checkQuery(t, figures, strings.ReplaceAll(query, "$__rate_interval", "5m"))
	}
	for name := range figures {
		if base, bucket := strings.CutSuffix(name, "_bucket"); bucket {
			name = base
		} else if strings.HasSuffix(name, "_seconds_sum") || strings.HasSuffix(name, "_seconds_count") {
			continue
		}
		if !strings.Contains(used, name) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

func TestOperations_ExplainEachMetricAlertAndWord(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docs, "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for name := range described(t, promleader.Options{AOPNames: true}) {
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if strings.HasSuffix(strings.TrimSuffix(name, part), "_seconds") {
				name = strings.TrimSuffix(name, part)
			}
		}
		if !strings.Contains(page, "`"+name) {
			t.Errorf("%s is not explained", name)
		}
	}
	for _, a := range alerts(t) {
		if !strings.Contains(page, "\n#### "+a.Alert+"\n") {
			t.Errorf("%s has no heading of its own", a.Alert)
		}
	}
	for label, words := range values {
		for _, word := range words {
			if word != "" && !strings.Contains(page, "`"+word+"`") {
				t.Errorf("%s %s is not explained", label, word)
			}
		}
	}
	known := described(t, promleader.Options{AOPNames: true})
	for _, m := range regexp.MustCompile("`(leader_[a-z_]+[a-z])[`{]").FindAllStringSubmatch(page, -1) {
		_, plain := known[m[1]]
		_, timed := known[m[1]+"_sum"]
		if !plain && !timed {
			t.Errorf("%s is explained, and does not exist", m[1])
		}
	}
}
