package consulleader_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend/consulleader"
	"github.com/goleader/leader/internal/testserver"
)

// faulty is a transport that notes all requests and does something else with some of them.
type faulty struct {
	base http.RoundTripper

	mu    sync.Mutex
	noted []string
	fault func(r *http.Request, body string) (*http.Response, error) // errPass lets the request pass
}

var errPass = errors.New("pass")

func (f *faulty) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	f.mu.Lock()
	f.noted = append(f.noted, r.Method+" "+r.URL.RequestURI()+" "+string(body))
	fault := f.fault
	f.mu.Unlock()
	if fault != nil {
		if resp, err := fault(r, string(body)); !errors.Is(err, errPass) {
			return resp, err
		}
	}
	return f.base.RoundTrip(r)
}

// set changes what is done with requests.
func (f *faulty) set(fault func(r *http.Request, body string) (*http.Response, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// count returns how many of the requests so far contain all parts.
func (f *faulty) count(parts ...string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, line := range f.noted {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			n++
		}
	}
	return n
}

// once does a fault with the first request that contains all parts.
func (f *faulty) once(fault func(r *http.Request) (*http.Response, error), parts ...string) {
	var do sync.Once
	f.set(func(r *http.Request, body string) (resp *http.Response, err error) {
		line := r.Method + " " + r.URL.RequestURI() + " " + body
		for _, part := range parts {
			if !strings.Contains(line, part) {
				return nil, errPass
			}
		}
		err = errPass
		do.Do(func() { resp, err = fault(r) }) //nolint:bodyclose // The client closes it.
		return resp, err
	})
}

// swallow sends a request and keeps its answer back until its context ends.
func (f *faulty) swallow(r *http.Request) (*http.Response, error) {
	resp, err := f.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	_ = resp.Body.Close()
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// hold keeps a request back. Its sender gets an answer when its context ends; deliver sends the request then.
func (f *faulty) hold(t testing.TB) (fault func(r *http.Request) (*http.Response, error), deliver func() string) {
	t.Helper()
	held := make(chan *http.Request, 1)
	fault = func(r *http.Request) (*http.Response, error) {
		late := r.Clone(t.Context())
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		late.Body = io.NopCloser(bytes.NewReader(body))
		held <- late
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	deliver = func() string {
		t.Helper()
		resp, err := f.base.RoundTrip(<-held)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.Itoa(resp.StatusCode) + " " + string(answer)
	}
	return fault, deliver
}

// through returns a backend whose requests pass a faulty transport.
func through(t testing.TB, server *testserver.Server, opts *consulleader.Options) (*consulleader.Backend, *faulty) {
	t.Helper()
	f := &faulty{base: transport(t)}
	client, err := api.NewClient(&api.Config{
		Address: server.Addr(), Token: server.Password(), HttpClient: &http.Client{Transport: f},
	})
	if err != nil {
		t.Fatal(err)
	}
	return open(t, client, opts), f
}

// body is that of an answer.
func body(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }
