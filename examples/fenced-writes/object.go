package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/goleader/leader"
)

// fenceHeader is metadata that an object store keeps beside an object.
const fenceHeader = "X-Meta-Fence"

// object is one of an object store, which knows nothing of fences but has conditional writes: the writer reads the fence
// of the object, and writes only if the object is still the one that it has read.
type object struct {
	client *http.Client
	url    string
}

func (o object) write(ctx context.Context, held *leader.Lease, text string) error {
	fence := held.Info().Fence
	for {
		current, err := o.send(ctx, http.MethodGet, nil, "")
		if err != nil {
			return err
		}
		header := http.Header{fenceHeader: {strconv.FormatUint(fence, 10)}, "If-None-Match": {"*"}}
		if current.status == http.StatusOK {
			last, err := strconv.ParseUint(current.header.Get(fenceHeader), 10, 64)
			if err != nil {
				return fmt.Errorf("the fence of the object: %w", err)
			}
			if fence < last {
				return errStale
			}
			header.Del("If-None-Match")
			header.Set("If-Match", current.header.Get("ETag"))
		}
		written, err := o.send(ctx, http.MethodPut, header, text)
		if err != nil || written.status == http.StatusOK {
			return err
		}
		if written.status != http.StatusPreconditionFailed {
			return fmt.Errorf("the object store answered %d", written.status)
		}
		// Somebody has written in between. Who writes last has the greatest fence, so this ends.
	}
}

func (o object) read(ctx context.Context) (string, error) {
	current, err := o.send(ctx, http.MethodGet, nil, "")
	return current.body, err
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (o object) send(ctx context.Context, method string, header http.Header, body string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, o.url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header = header
	response, err := o.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(text)}, err
}

// objectStore has one object, in memory, and of what object stores offer the conditional writes (RFC 9110, 13.1).
type objectStore struct {
	mu      sync.Mutex
	version int // 0 if there is no object
	fence   string
	body    string
}

func (s *objectStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tag := strconv.Quote(strconv.Itoa(s.version))
	if r.Method == http.MethodGet {
		if s.version == 0 {
			http.Error(w, "no such object", http.StatusNotFound)
			return
		}
		w.Header().Set("ETag", tag)
		w.Header().Set(fenceHeader, s.fence)
		_, _ = io.WriteString(w, s.body)
		return
	}
	match := r.Header.Get("If-Match")
	if match != "" && match != tag || r.Header.Get("If-None-Match") == "*" && s.version > 0 {
		http.Error(w, "the object has changed", http.StatusPreconditionFailed)
		return
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.version++
	s.fence, s.body = r.Header.Get(fenceHeader), string(text)
}
