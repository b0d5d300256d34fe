package hazelcastleader_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/goleader/leader/internal/testserver"
)

// The members that tests share, each with a map of its own: one that none of them harms, and two of which a test may harm
// one and has to bring it back.
var (
	lone = newShared(func(t testserver.TB) *testserver.Server { return testserver.Hazelcast(t) })
	pair = newShared(func(t testserver.TB) *testserver.Hazelcasts { return testserver.HazelcastTwo(t) })
)

func TestMain(m *testing.M) {
	code := m.Run()
	lone.end()
	pair.end()
	os.Exit(code)
}

// shared is what is started for the first who wants it, and ends with the process.
type shared[T any] struct {
	start func(t testserver.TB) T

	once    sync.Once
	value   T
	started bool          // false if it could not be started
	ended   chan struct{} // closed when nobody wants it any more
	gone    sync.WaitGroup
}

func newShared[T any](start func(t testserver.TB) T) *shared[T] {
	return &shared[T]{start: start, ended: make(chan struct{})}
}

// get returns it. A test that cannot have it is skipped or fails as it would with one of its own.
func (s *shared[T]) get(t testing.TB) T {
	t.Helper()
	s.once.Do(s.launch)
	if !s.started {
		return s.start(t)
	}
	return s.value
}

func (s *shared[T]) launch() {
	values := make(chan T, 1)
	s.gone.Go(func() {
		defer close(values)
		_ = testserver.Run(context.Background(), func(t testserver.TB) {
			values <- s.start(t)
			<-s.ended
		})
	})
	s.value, s.started = <-values
}

func (s *shared[T]) end() {
	close(s.ended)
	s.gone.Wait()
}
