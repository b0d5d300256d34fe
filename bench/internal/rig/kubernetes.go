package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/k8sleader"
	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/internal/testserver"
)

// namespace is where everybody works.
const namespace = "default"

// Kubernetes is an API server with everybody who works on it.
type Kubernetes struct {
	server *testserver.KubeServer
	client coordination.CoordinationV1Interface // of all, so that nobody has other connections
}

// NewKubernetes starts an API server over an etcd, which waits for its disk; a cluster that [testserver.KubeconfigEnv]
// names is taken as it is, and some Lease objects are left in it.
func NewKubernetes(t testserver.TB) *Kubernetes {
	t.Helper()
	k := &Kubernetes{server: testserver.Kube(t)}
	k.client = k.dial(t, nil)
	return k
}

// dial returns a client with connections of its own that is not held up. It speaks protobuf, as the driver does
// whatever its client speaks.
func (k *Kubernetes) dial(
	t testserver.TB, wrap func(http.RoundTripper) http.RoundTripper,
) coordination.CoordinationV1Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", k.server.Config())
	if err != nil {
		t.Fatalf("%v", err)
	}
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.Dial = new(net.Dialer).DialContext // another dialer, another transport
	if wrap != nil {
		config.Wrap(wrap)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if c, ok := client.CoordinationV1().RESTClient().(*rest.RESTClient); ok {
			utilnet.CloseIdleConnectionsFor(c.Client.Transport)
		}
	})
	return client.CoordinationV1()
}

func (k *Kubernetes) driver(t testserver.TB, client coordination.CoordinationV1Interface) *k8sleader.Backend {
	t.Helper()
	d := k8sleader.New(client, nil)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// Run returns a RunIfLeader.
func (k *Kubernetes) Run(t testserver.TB) Op { return run(newElector(t, k.driver(t, k.client)), "run") }

// Skip returns a RunIfLeader while another holds the name.
func (k *Kubernetes) Skip(t testserver.TB) Op {
	hold(t, newElector(t, k.driver(t, k.client)), "skip")
	return skip(newElector(t, k.driver(t, k.client)), "skip", leader.Contended)
}

// Handoff returns the hand-off between two electors, each with a client of its own.
func (k *Kubernetes) Handoff(t testserver.TB) contest.Way {
	r := newRelay(t, k.driver(t, k.dial(t, nil)), k.driver(t, k.dial(t, nil)), 0)
	r.settle = httpSettle
	return r.pass
}

// Floor returns the update and the patch of the driver for a RunIfLeader, by the raw client.
func (k *Kubernetes) Floor(t testserver.TB) Op {
	term := k.record(t, "floor")
	leases, object := k.client.Leases(namespace), term.object
	return func(ctx context.Context) error {
		held, err := term.acquire(ctx, leases, object, rand.Text())
		if err != nil {
			return err
		}
		object, err = term.release(ctx, leases, held)
		return err
	}
}

// SkipFloor returns the read by which the driver finds a key held, by the raw client.
func (k *Kubernetes) SkipFloor(t testserver.TB) Op {
	t.Helper()
	hold(t, newElector(t, k.driver(t, k.client)), "skip floor")
	name := k.recordSkip(t, "skip floor")
	leases := k.client.Leases(namespace)
	return func(ctx context.Context) error {
		object, err := leases.Get(ctx, name, metav1.GetOptions{})
		if err == nil && isFree(object) {
			err = errors.New("the key is not held")
		}
		return err
	}
}

// RawHandoff returns the hand-off by raw clients and the driver's own requests: one releases; another, who watches the
// object, hears of it and acquires. The time ends with the answer.
func (k *Kubernetes) RawHandoff(t testserver.TB) contest.Way {
	t.Helper()
	term := k.record(t, "raw hand-off")
	object := term.object
	from, to := k.dial(t, nil).Leases(namespace), k.dial(t, nil).Leases(namespace)
	changes, err := to.Watch(t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + object.Name, ResourceVersion: object.ResourceVersion,
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(changes.Stop)
	return func(ctx context.Context) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		held, err := term.acquire(ctx, from, object, rand.Text())
		if err != nil {
			return 0, err
		}
		next := held
		took, err := passAfter(httpSettle, func() error {
			freed, err := awaitFree(ctx, changes)
			if err == nil {
				next, err = term.acquire(ctx, to, freed, rand.Text())
			}
			return err
		}, func() error {
			_, err := term.release(ctx, from, held)
			return err
		})
		if err != nil {
			return 0, err
		}
		if object, err = term.release(ctx, to, next); err != nil {
			return 0, err
		}
		_, err = awaitFree(ctx, changes) // of that release
		return took, err
	}
}
