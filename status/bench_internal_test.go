package status

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

// BenchmarkLook measures what a poll costs beside the store's answer, at 1,000 names with metadata and a viewer.
func BenchmarkLook(b *testing.B) {
	d := local.New()
	for i := range 1000 {
		_, err := d.TryAcquire(b.Context(), backend.Request{
			Key: fmt.Sprint("job-", i), Token: fmt.Sprintf("%026d", i), Owner: "node", TTL: time.Hour,
			Metadata: map[string]string{"zone": "eu-west-1a", "version": "2.14.0"},
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	p, err := New(d, &Options{Interval: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, DefaultPath+"/events", http.NoBody)
	go p.ServeHTTP(httptest.NewRecorder(), r)
	for b.Loop() {
		if _, err := p.look(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
