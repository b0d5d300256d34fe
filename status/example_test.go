package status_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

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
