package k8sleader_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/k8sleader"
	"github.com/goleader/leader/internal/exampletest"
)

var kubeconfig, namespace = "", "shop"

// Two pods share a namespace, and one of them writes the nightly report.
func Example() {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig) // in a pod, rest.InClusterConfig()
	if err != nil {
		fmt.Println(err)
		return
	}
	config.QPS, config.Burst = 50, 100 // the client's own limit of 5 requests a second holds up renewals
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	b := k8sleader.New(client.CoordinationV1(), &k8sleader.Options{Namespace: namespace})
	defer b.Close()
	ctx := context.Background()
	web1, err := leader.New(b, leader.WithNodeID("web-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	web2, err := leader.New(b, leader.WithNodeID("web-2")) // in a service, that of another pod
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
	c := sharedCluster(t)
	kubeconfig, namespace = shared.server.Config(), c.namespace
	const want = "web-2: Skipped (Contended, held by web-1)\nweb-1: Elected <nil>\n"
	exampletest.Prints(t, want, Example)
}
