package hazelcastleader

import (
	"errors"
	"testing"
	"time"
)

// A waiter's look goes on after its context, but not after Close.
func TestFeed_Close_WaitsForWhatRunsAside(t *testing.T) {
	f := newFeed(nil)
	over := false
	err := f.aside(func() {
		time.Sleep(50 * time.Millisecond) // a request that is under way
		over = true
	})
	if err != nil {
		t.Fatal(err)
	}
	f.close()
	if !over {
		t.Error("it still runs")
	}
	if err := f.aside(func() { t.Error("it runs on a closed feed") }); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
}
