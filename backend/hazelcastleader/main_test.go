package hazelcastleader_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/goleader/leader/internal/testserver"
)

// lone is the member that those tests share which do not harm it. Each has a map of its own.
var lone = shared{ended: make(chan struct{})}

// shared is a member that is started for the first who wants it, and ends with the process.
type shared struct {
	once   sync.Once
	server *testserver.Server // nil if it could not be started
	ended  chan struct{}      // closed when nobody wants it any more
	gone   sync.WaitGroup
}

func TestMain(m *testing.M) {
	code := m.Run()
	close(lone.ended)
	lone.gone.Wait()
	os.Exit(code)
}

// member returns the member. A test that cannot have it is skipped or fails as it would with one of its own.
func (s *shared) member(t testing.TB) *testserver.Server {
	t.Helper()
	s.once.Do(s.start)
	if s.server == nil {
		return testserver.Hazelcast(t)
	}
	return s.server
}

func (s *shared) start() {
	started := make(chan *testserver.Server, 1)
	s.gone.Go(func() {
		defer close(started)
		_ = testserver.Run(context.Background(), func(t testserver.TB) {
			started <- testserver.Hazelcast(t)
			<-s.ended
		})
	})
	s.server = <-started
}
