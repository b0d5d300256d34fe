package consulleader_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/consulleader"
	"github.com/goleader/leader/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

var consulAddr = "localhost:8500"

// Two processes share a Consul, and one of them writes the nightly report.
func Example() {
	config := api.DefaultConfig()
	config.Address = consulAddr
	config.Transport.MaxIdleConnsPerHost = 16 // as many as there are requests at a time
	client, err := api.NewClient(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	b := consulleader.New(client, nil)
	defer b.Close()
	ctx := context.Background()
	lasts := leader.WithLeaseTime(15 * time.Second) // at least 10 s
	web1, err := leader.New(b, leader.WithNodeID("web-1"), lasts)
	if err != nil {
		fmt.Println(err)
		return
	}
	web2, err := leader.New(b, leader.WithNodeID("web-2"), lasts) // in a service, that of another process
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
	server := testserver.Consul(t)
	if !server.Owned() {
		t.Skip("this needs a server of its own")
	}
	consulAddr = server.Addr()
	const want = "web-2: Skipped (Contended, held by web-1)\nweb-1: Elected <nil>\n"
	exampletest.Prints(t, want, Example)
}
