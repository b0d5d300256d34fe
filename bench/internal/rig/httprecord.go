package rig

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
)

// httpRequest is a request that was sent.
type httpRequest struct {
	method string
	url    *url.URL
	body   []byte
}

// httpRecorder is a transport that keeps all requests.
type httpRecorder struct {
	next http.RoundTripper

	mu   sync.Mutex
	list []httpRequest
}

// RoundTrip implements [http.RoundTripper].
func (r *httpRecorder) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := httpRequest{method: request.Method, url: request.URL}
	if request.Body != nil {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		_ = request.Body.Close()
		sent.body = body
		request = request.Clone(request.Context())
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
	r.mu.Lock()
	r.list = append(r.list, sent)
	r.mu.Unlock()
	return r.next.RoundTrip(request)
}

// WrappedRoundTripper shows the transport below to those who close its connections.
func (r *httpRecorder) WrappedRoundTripper() http.RoundTripper { return r.next }

func (r *httpRecorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = nil
}

func (r *httpRecorder) sent() []httpRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// wrap makes the recorder one that sends by next.
func (r *httpRecorder) wrap(next http.RoundTripper) http.RoundTripper {
	r.next = next
	return r
}
