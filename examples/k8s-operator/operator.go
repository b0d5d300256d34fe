package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/goleader/leader"
)

// The annotations say who wrote the greeting of an object last.
const (
	madeBy    = "greeting.example/made-by"
	madeUnder = "greeting.example/fence"
)

// errStale says that a later leader has written to the object.
var errStale = errors.New("refused, a later leader has written")

// operator writes a greeting into each ConfigMap with our label, for the name in it.
type operator struct {
	client    kubernetes.Interface
	namespace string
	informer  cache.SharedIndexInformer
	objects   listers.ConfigMapNamespaceLister
}

func newOperator(client kubernetes.Interface, namespace string, factory informers.SharedInformerFactory) operator {
	maps := factory.Core().V1().ConfigMaps()
	return operator{client, namespace, maps.Informer(), maps.Lister().ConfigMaps(namespace)}
}

// lead reconciles until the lease is over. The queue belongs to the term: it begins with all objects of the cache, and
// what is in it at the end is not done.
func (o operator) lead(ctx context.Context) error {
	held, trusted := leader.LeaseFrom(ctx)
	if !trusted {
		return nil
	}
	say("leads, fence %d", held.Info().Fence)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	add := func(object any) {
		if m, ok := object.(*core.ConfigMap); ok {
			queue.Add(m.Name)
		}
	}
	// A new handler is told of all objects that are in the cache.
	registration, err := o.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, object any) { add(object) },
	})
	if err != nil {
		queue.ShutDown()
		return err
	}
	var working sync.WaitGroup
	working.Go(func() { o.work(ctx, held, queue) })
	<-ctx.Done()
	queue.ShutDown()
	working.Wait()
	say("leads no longer: %v", context.Cause(ctx))
	return o.informer.RemoveEventHandler(registration)
}

// work reconciles what comes out of the queue, until that is shut down.
func (o operator) work(ctx context.Context, held *leader.Lease, queue workqueue.TypedRateLimitingInterface[string]) {
	for {
		key, shutdown := queue.Get()
		if shutdown {
			return
		}
		if err := o.reconcile(ctx, held, key); err != nil && ctx.Err() == nil {
			say("could not greet in %s: %v", key, err)
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

// reconcile writes the greeting of one object, unless it is there. The object is one of the cache, which may be old: the
// server refuses the update if it has another version. So a leader that was frozen overwrites nothing that it has not
// seen, and the fence in the object keeps it from what it has seen.
func (o operator) reconcile(ctx context.Context, held *leader.Lease, key string) error {
	old, err := o.objects.Get(key)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	greeting := fmt.Sprintf("Hello, %s!", old.Data["name"])
	if old.Data["greeting"] == greeting {
		return nil
	}
	info := held.Info()
	if text, written := old.Annotations[madeUnder]; written {
		if fence, err := strconv.ParseUint(text, 10, 64); err == nil && fence > info.Fence {
			return fmt.Errorf("fence %d: %w", info.Fence, errStale)
		}
	}
	object := old.DeepCopy() // the cache is shared
	if object.Data == nil {
		object.Data = make(map[string]string)
	}
	object.Data["greeting"] = greeting
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, madeBy, info.Node)
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, madeUnder, strconv.FormatUint(info.Fence, 10))
	if _, err := o.client.CoreV1().ConfigMaps(o.namespace).Update(ctx, object, metav1.UpdateOptions{}); err != nil {
		return err
	}
	say("greets in %s", key)
	return nil
}
