// K8s-lease shows what a Lease object of Kubernetes looks like while two nodes acquire it, conflict, release it and acquire
// it again.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/k8sleader"
)

const name = "k8s-lease" // of the Lease

var (
	kubeconfig = flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "path of a kubeconfig; none means that of the pod")
	namespace  = flag.String("namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "default"), "where the Lease is")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 50, 100 // 5 requests a second, as client-go has it, hold up renewals
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	a, closeA, err := node(client, "a")
	if err != nil {
		return err
	}
	defer closeA()
	b, closeB, err := node(client, "b")
	if err != nil {
		return err
	}
	defer closeB()
	return show(ctx, client, a, b)
}

// node is an elector on a backend of its own, as in a process of its own.
func node(client kubernetes.Interface, id string) (e leader.Elector, closeBackend func(), err error) {
	backend := k8sleader.New(client.CoordinationV1(), &k8sleader.Options{Namespace: *namespace})
	e, err = leader.New(backend, leader.WithNodeID(id), leader.WithLeaseTime(15*time.Second))
	if err != nil {
		_ = backend.Close()
	}
	return e, func() { _ = backend.Close() }, err
}

func show(ctx context.Context, client kubernetes.Interface, a, b leader.Elector) error {
	first, err := a.Acquire(ctx, name)
	if err != nil {
		return err
	}
	if err := describe(ctx, client, "a acquires"); err != nil {
		return err
	}
	if _, err := b.Acquire(ctx, name); !errors.Is(err, leader.ErrNotElected) {
		return fmt.Errorf("b was not refused: %w", err)
	}
	if err := describe(ctx, client, "b is refused"); err != nil {
		return err
	}
	if err := first.Release(ctx); err != nil {
		return err
	}
	if err := describe(ctx, client, "a releases"); err != nil {
		return err
	}
	second, err := b.Acquire(ctx, name)
	if err != nil {
		return err
	}
	defer func() { _ = second.Release(ctx) }()
	if err := describe(ctx, client, "b acquires"); err != nil {
		return err
	}
	fmt.Printf("the fence grew: %v\n", second.Info().Fence > first.Info().Fence)
	return nil
}

// describe prints what kubectl get lease -o yaml shows of it.
func describe(ctx context.Context, client kubernetes.Interface, what string) error {
	l, err := client.CoordinationV1().Leases(*namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	holder, transitions := "", int32(0)
	if l.Spec.HolderIdentity != nil {
		holder = *l.Spec.HolderIdentity
	}
	if l.Spec.LeaseTransitions != nil {
		transitions = *l.Spec.LeaseTransitions
	}
	fmt.Printf("%-14s holderIdentity=%q leaseTransitions=%d resourceVersion=%s\n",
		what, holder, transitions, l.ResourceVersion)
	return nil
}
