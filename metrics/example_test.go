package metrics_test

import (
	"context"
	"fmt"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/metrics"
)

// printed is a sink that takes one of the figures. In a program it would have all methods itself.
type printed struct{ metrics.Sink }

func (printed) RunStarted(context.Context, string)    {}
func (printed) LeaseAcquired(context.Context, string) {}
func (printed) LeaseEnded(context.Context, string)    {}
func (printed) Released(context.Context, string)      {}
func (printed) RunFinished(_ context.Context, name string, r metrics.Run) {
	fmt.Println(name, r.Outcome, r.Reason, r.Led())
}

func ExampleNewObserver() {
	observer := metrics.NewObserver(printed{}, metrics.FirstNames(1))
	elector, err := leader.New(local.New(), leader.WithHooks(observer.Hooks()))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"report", "clean-up"} {
		_, err := elector.RunIfLeader(context.Background(), name, func(context.Context) error { return nil })
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// report elected  true
	// other elected  true
}
