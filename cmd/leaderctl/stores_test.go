//go:build unix

package main_test

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/goleader/leader/internal/testserver"
)

// withScheme is a URL with another scheme and query.
func withScheme(t *testing.T, text, scheme, query string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.Scheme, u.RawQuery = scheme, query
	return u.String()
}

// stores are all that the tool knows.
var stores = map[string]func(t *testing.T) string{
	"redis":     func(t *testing.T) string { return testserver.Redis(t).URL() },
	"postgres":  func(t *testing.T) string { return testserver.Postgres(t).URL() },
	"mysql":     func(t *testing.T) string { return testserver.MariaDB(t).URL() },
	"sqlite":    func(t *testing.T) string { return strings.TrimPrefix(onSQLite(t)[0], "LEADER_STORE=") },
	"mongodb":   func(t *testing.T) string { return testserver.Mongo(t).URL() },
	"etcd":      func(t *testing.T) string { return withScheme(t, testserver.Etcd(t).URL(), "etcd", "") },
	"consul":    func(t *testing.T) string { return withScheme(t, testserver.Consul(t).URL(), "consul", "") },
	"zookeeper": func(t *testing.T) string { return "zookeeper://" + testserver.ZooKeeper(t).Addr() + "/a/root" },
	"kubernetes": func(t *testing.T) string {
		return "kubernetes:default?kubeconfig=" + url.QueryEscape(testserver.Kube(t).Config())
	},
	"dynamodb": func(t *testing.T) string {
		return "dynamodb://test:test@eu-central-1/leases?endpoint=" + url.QueryEscape(testserver.Dynamo(t).URL())
	},
	"hazelcast": func(t *testing.T) string { return "hazelcast://" + testserver.Hazelcast(t).Addr() },
}

func TestStores_AllCommandsWorkOnEach(t *testing.T) {
	t.Parallel()
	for scheme, start := range stores {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			settings := []string{"LEADER_STORE=" + start(t)}
			must(t, 0, settings, "migrate")
			first := must(t, 0, settings, "run", "nightly job/1", "--wait", "20s", "--", "sh", "-c", `echo "$LEADER_FENCE"; "$0" inspect "$LEADER_NAME" --json; "$0" list`, program)
			fence, rest, _ := strings.Cut(first, "\n")
			var v struct {
				Name  string
				Fence uint64
			}
			if err := json.NewDecoder(strings.NewReader(rest)).Decode(&v); err != nil || strconv.FormatUint(v.Fence, 10) != fence {
				t.Errorf("the command has fence %s, inspect shows %d, %v", fence, v.Fence, err)
			}
			if !strings.Contains(rest, "\nnightly job/1 ") {
				t.Errorf("it is not listed:\n%s", rest)
			}
			must(t, 0, settings, "run", "nightly job/1", "--wait", "20s", "--", "true")
			must(t, 0, settings, "candidates", "nightly job/1")
			must(t, 120, settings, "release", "nightly job/1", "--fence", fence)
			if code := tool(t, settings, "doctor").run(t); code != 0 && code != 119 {
				t.Errorf("doctor: %d", code)
			}
		})
	}
}
