package netfault_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/goleader/leader/backend/backendtest/netfault"
)

// A reply gets lost: the client cannot know whether its request was executed, but it was.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	var orders atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { orders.Add(1) }))
	defer server.Close()
	proxy, err := netfault.Listen(ctx, server.Listener.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()

	order := func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+proxy.Addr(), nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}

	lost := proxy.SwallowReply(nil)
	impatient, giveUp := context.WithCancel(ctx)
	go func() {
		defer giveUp()
		fmt.Println("reply swallowed:", lost.Wait(ctx) == nil)
	}()
	fmt.Println("first order confirmed:", order(impatient) == nil)
	fmt.Println("second order confirmed:", order(ctx) == nil)
	fmt.Println("orders:", orders.Load())
	// Output:
	// reply swallowed: true
	// first order confirmed: false
	// second order confirmed: true
	// orders: 2
}
