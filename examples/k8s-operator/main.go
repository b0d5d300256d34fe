// K8s-operator is one of several replicas of an operator. Each keeps a warm cache of its objects, and one of them
// reconciles: when it is killed another goes on.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/k8sleader"
)

const (
	name = "k8s-operator" // of the Lease
	// label is what an object must have to be ours.
	label = "example=greeting"
	// resync is how often all objects are looked at again.
	resync = time.Minute
)

var (
	kubeconfig = flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "path of a kubeconfig; none means that of the pod")
	namespace  = flag.String("namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "default"), "where the objects are")
	node       = flag.String("node", os.Getenv("POD_NAME"), "name of this replica; by default the library makes one")
	lease      = flag.Duration("lease", 15*time.Second, "how long the others wait for a leader that died")
	lives      = flag.Duration("lives", 0, "how long to live; 0 means until interrupted")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	// A pod is ended by SIGTERM. The lease is released then, so a rolling update does not wait for it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *lives > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *lives)
		defer cancel()
	}
	client, err := connect(*kubeconfig)
	if err != nil {
		return err
	}
	b := k8sleader.New(client.CoordinationV1(), &k8sleader.Options{Namespace: *namespace})
	defer b.Close()
	elector, err := leader.New(b, electorOptions()...)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithNamespace(*namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = label }))
	o := newOperator(client, *namespace, factory)
	factory.Start(ctx.Done())
	defer factory.Shutdown() // waits for the goroutines, which stop ends
	defer stop()
	// A replica that cannot see the objects is no use as a leader.
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("no cache of %v: %w", kind, context.Cause(ctx))
		}
	}
	say("is ready")
	err = elector.Campaign(ctx, name, o.lead, leader.WithRequeue())
	if ctx.Err() != nil {
		return nil // asked to stop
	}
	return err
}

func connect(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	// Five requests a second, as client-go has it, would soon hold up renewals.
	config.QPS, config.Burst = 50, 100
	return kubernetes.NewForConfig(config)
}

func electorOptions() []leader.Option {
	options := []leader.Option{leader.WithLeaseTime(*lease)}
	if *node != "" {
		options = append(options, leader.WithNodeID(*node))
	}
	return options
}

func say(format string, args ...any) {
	fmt.Printf("%s  %-7s %s\n", time.Now().Format("15:04:05.000"), *node, fmt.Sprintf(format, args...))
}
