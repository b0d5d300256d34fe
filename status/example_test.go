package status_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/status"
)

func Example() {
	driver := local.New() // in a service, the driver of a store that its processes share
	memory := history.NewMemory(0)
	page, err := status.New(driver, &status.Options{History: status.InMemory(memory)})
	if err != nil {
		fmt.Println(err)
		return
	}
	recorder := history.NewRecorder(memory, nil)
	elector, err := leader.New(driver, leader.WithHooks(leader.JoinHooks(recorder.Hooks(), page.Hooks())))
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = elector // which the service uses
	page.AddNames("nightly-report")

	mux := http.NewServeMux()
	mux.Handle("/management/", page)
	mux.Handle("/healthz", page.Health())
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, path := range []string{"/management/leaderElection", "/management/leaderElection/", "/healthz"} {
		resp, err := http.Get(server.URL + path) //nolint:noctx // an example
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = resp.Body.Close()
		fmt.Println(path, resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	// Output:
	// /management/leaderElection 200 application/json
	// /management/leaderElection/ 200 text/html; charset=utf-8
	// /healthz 200 application/json
}

// Whoever may do so can end a lease whose holder hangs. The page then has a button; a request needs the current fence, and
// to come from the page itself.
func ExampleOptions() {
	driver := local.New()
	memory := history.NewMemory(0)
	page, err := status.New(driver, &status.Options{
		History: status.InMemory(memory),
		Authorize: func(r *http.Request) (string, error) {
			who, _, ok := r.BasicAuth() // of a proxy that has checked it, say
			if !ok {
				return "", errors.New("nobody is logged in")
			}
			return who, nil
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	elector, err := leader.New(driver, leader.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	lease, err := elector.Acquire(context.Background(), "nightly-report")
	if err != nil {
		fmt.Println(err)
		return
	}
	demand := func(user string) int {
		form := url.Values{"name": {"nightly-report"}, "fence": {strconv.FormatUint(lease.Info().Fence, 10)}}
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost,
			"/management/leaderElection/release", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if user != "" {
			r.SetBasicAuth(user, "")
		}
		answer := httptest.NewRecorder()
		page.ServeHTTP(answer, r)
		return answer.Code
	}
	fmt.Println(demand(""), demand("alice"))
	for _, r := range memory.Recent("nightly-report", 1) {
		fmt.Println(r.Status, r.Metadata)
	}
	// Output:
	// 403 200
	// Lost map[forced release by:alice]
}
