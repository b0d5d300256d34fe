package hazelcastleader_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/logger"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/hazelcastleader"
	"github.com/goleader/leader/internal/exampletest"
)

var hazelcastAddr = "localhost:5701"

// Two processes share a Hazelcast, and one of them writes the nightly report.
func Example() {
	var config hazelcast.Config
	config.Cluster.Network.Addresses = []string{hazelcastAddr}
	config.Logger.Level = logger.OffLevel // the client logs much
	hazelcastleader.Configure(&config)
	ctx := context.Background()
	client, err := hazelcast.StartNewClientWithConfig(ctx, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Shutdown(ctx) }()
	b := hazelcastleader.New(client, nil)
	defer b.Close()
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
	hazelcastAddr = unharmed(t).Addr()
	const want = "web-2: Skipped (Contended, held by web-1)\nweb-1: Elected <nil>\n"
	exampletest.Prints(t, want, Example)
}
