package k8sleader_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/k8sleader"
)

func unconnected(t testing.TB, qps float32) coordination.CoordinationV1Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://127.0.0.1:1", QPS: qps})
	if err != nil {
		t.Fatal(err)
	}
	return client.CoordinationV1()
}

func TestBackend_Check_ReportsEveryBadOption(t *testing.T) {
	good := unconnected(t, -1)
	for name, test := range map[string]struct {
		client coordination.CoordinationV1Interface
		opts   *k8sleader.Options
		want   []string
	}{
		"nothing":        {client: good},
		"zero options":   {client: good, opts: &k8sleader.Options{}},
		"a namespace":    {client: good, opts: &k8sleader.Options{Namespace: "team-a"}},
		"nil client":     {want: []string{"client is nil"}},
		"fake client":    {client: fake.NewClientset().CoordinationV1(), want: []string{"fake"}},
		"upper case":     {client: good, opts: &k8sleader.Options{Namespace: "Team"}, want: []string{`"Team"`}},
		"a path":         {client: good, opts: &k8sleader.Options{Namespace: "a/b"}, want: []string{`"a/b"`}},
		"several at one": {opts: &k8sleader.Options{Namespace: "-"}, want: []string{"nil", `"-"`}},
	} {
		t.Run(name, func(t *testing.T) {
			b := k8sleader.New(test.client, test.opts)
			err := b.Check()
			if (err != nil) != (len(test.want) > 0) {
				t.Fatalf("Check: %v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Check: %v, want it to name %q", err, want)
				}
			}
			if err == nil {
				return
			}
			if kind := backend.KindOf(err); kind != backend.Misconfigured {
				t.Errorf("kind %v", kind)
			}
			if _, again := b.TryAcquire(t.Context(), request("a", long)); !errors.Is(again, err) {
				t.Errorf("TryAcquire: %v, want the error of Check", again)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBackend_Advise_WarnsOfASlowClient(t *testing.T) {
	c := sharedCluster(t)
	for qps, want := range map[float32]int{0: 1, 19: 1, 20: 0, -1: 0} {
		config := *c.config
		config.QPS, config.Burst = qps, 50
		warnings, err := c.openWith(t, &config).Advise(t.Context())
		if err != nil || len(warnings) != want {
			t.Errorf("QPS %v: %q, %v", qps, warnings, err)
		}
	}
}

func TestBackend_Namespaces_AreApart(t *testing.T) {
	one, other := sharedCluster(t), sharedCluster(t)
	win(t, one.open(t), request("a", long))
	win(t, other.open(t), request("a", long))
}
