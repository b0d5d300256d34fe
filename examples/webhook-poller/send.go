package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// header is the one by which a receiver knows a webhook that it has had before.
const header = "Webhook-Id"

// post sends a webhook. Any answer of 2xx means that the receiver has it.
func post(ctx context.Context, w webhook) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, strings.NewReader(w.Body))
	if err != nil {
		return err
	}
	request.Header.Set(header, w.ID)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return errors.New(response.Status)
	}
	return nil
}

// receiver accepts each webhook once, however often it is sent.
type receiver struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (r *receiver) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(answer, request.Body, 1<<20))
	if err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	id := request.Header.Get(header)
	if r.first(id) {
		say("received %s: %s", id, body)
	} else {
		say("received %s again", id)
	}
	// One that it has had is answered in the same way. Otherwise it would be sent for ever.
	answer.WriteHeader(http.StatusNoContent)
}

// first notes a webhook, and reports whether it is new. A real receiver notes it together with what it does about it, in
// one transaction.
func (r *receiver) first(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.seen[id]
	r.seen[id] = true
	return !known
}

// receive serves a receiver until ctx is over.
func receive(ctx context.Context, address string) error {
	server := &http.Server{
		Addr: address, Handler: &receiver{seen: make(map[string]bool)}, ReadHeaderTimeout: 5 * time.Second,
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	say("receives at http://%s", address)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
