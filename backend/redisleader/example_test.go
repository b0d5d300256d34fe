package redisleader_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/redisleader"
	"github.com/goleader/leader/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

var redisAddr = "localhost:6379"

// Two processes share a Redis, and one of them writes the nightly report.
func Example() {
	client := redis.NewClient(&redis.Options{Addr: redisAddr, ContextTimeoutEnabled: true})
	defer client.Close()
	b := redisleader.New(client, nil)
	defer b.Close()
	ctx := context.Background()
	web1, err := leader.New(b, leader.WithNodeID("web-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	web2, err := leader.New(b, leader.WithNodeID("web-2")) // in a service, that of another process
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := web1.RunIfLeader(ctx, "nightly-report", func(ctx context.Context) error {
		other, err := web2.RunIfLeader(ctx, "nightly-report", func(context.Context) error {
			fmt.Println("never printed: web-1 leads")
			return nil
		})
		fmt.Println("web-2:", other) // web-2: Skipped (Contended, held by web-1)
		return err
	})
	fmt.Println("web-1:", result.Outcome, errors.Join(err, result.Err)) // web-1: Elected <nil>
}

func TestExamples_PrintWhatTheySay(t *testing.T) {
	server := testserver.Redis(t)
	if !server.Owned() {
		t.Skip("this needs a server of its own")
	}
	redisAddr = server.Addr()
	const want = "web-2: Skipped (Contended, held by web-1)\nweb-1: Elected <nil>\n"
	exampletest.Prints(t, want, Example)
}
