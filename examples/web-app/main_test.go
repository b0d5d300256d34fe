package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/examples/internal/exampletest"
)

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestWebApp_TotalsOncePerTickOverAHandOver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web-app.db")
	path := exampletest.Build(t)
	replicas, addresses := map[string]*exampletest.Process{}, map[string]string{}
	for _, id := range []string{"a", "b"} {
		replicas[id] = exampletest.Start(t, path, "-file", file, "-node", id, "-listen", "127.0.0.1:0")
		addresses[id] = replicas[id].Await(t, `serves at (\S+)`)[1]
	}
	for range 3 {
		if code, body := get(t, addresses["a"]+"/"); code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
	}
	if code, body := get(t, addresses["b"]+"/healthz"); code != http.StatusOK || !strings.Contains(body, `"UP"`) {
		t.Errorf("health: %d %s", code, body)
	}
	awaitTotal(t, addresses["b"])
	checkSnapshot(t, addresses["b"])

	replicas["a"].Interrupt(t)
	if code := replicas["a"].Wait(t); code != 0 {
		t.Errorf("a ended with %d", code)
	}
	// The next tick is b's, whoever had the others.
	seen := strings.Count(replicas["b"].Output(), "b totals")
	replicas["b"].Await(t, fmt.Sprintf(`(?s)(b totals the visits.*){%d}`, seen+1))
	checkOnce(t, file)
}

// awaitTotal waits until a total has the visits.
func awaitTotal(t *testing.T, address string) {
	t.Helper()
	wanted := regexp.MustCompile(`^([3-9]|\d\d+) visits by \S+, says [ab]\n$`)
	body := ""
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if _, body = get(t, address+"/"); wanted.MatchString(body) {
			return
		}
	}
	t.Fatalf("no total of the visits: %s", body)
}

// checkSnapshot looks at what the page is made of.
func checkSnapshot(t *testing.T, address string) {
	t.Helper()
	code, body := get(t, address+"/management/leaderElection")
	if code != http.StatusOK || !strings.Contains(body, `"total-visits"`) {
		t.Errorf("the snapshot: %d %s", code, body)
	}
}

// checkOnce checks that no tick was totalled twice.
func checkOnce(t *testing.T, file string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var ticks, totals int
	row := db.QueryRowContext(t.Context(), `SELECT count(DISTINCT tick), count(*) FROM totals`)
	if err := row.Scan(&ticks, &totals); err != nil {
		t.Fatal(err)
	}
	if totals < 2 || totals != ticks {
		t.Errorf("%d totals of %d ticks", totals, ticks)
	}
}
