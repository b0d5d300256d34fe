package store

import (
	"cmp"
	"context"
	"errors"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/goleader/leader/backend/k8sleader"
)

const kubernetesRights = `a Role with apiGroups: ["coordination.k8s.io"], resources: ["leases"], ` +
	`verbs: ["get", "list", "watch", "create", "update", "patch", "delete"]`

// The most requests a second, and at once, that the client sends.
const (
	requestRate  = 50
	requestBurst = 100
)

// openKubernetes uses what kubectl would: KUBECONFIG, the file in the home folder, or the service account of the pod.
func openKubernetes(_ context.Context, l *Location, _ Options) (*Store, error) {
	if len(l.Hosts) > 0 || l.User != "" {
		return nil, errors.New("the server is named by the kubeconfig: write kubernetes:namespace")
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = l.Own("kubeconfig")
	overrides := &clientcmd.ConfigOverrides{CurrentContext: l.Own("context")}
	if err := l.Done(); err != nil {
		return nil, err
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = requestRate, requestBurst
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	b := k8sleader.New(client.CoordinationV1(), &k8sleader.Options{Namespace: cmp.Or(l.Path, namespace)})
	s := &Store{Driver: b, Rights: kubernetesRights}
	s.closes(b.Close)
	return s, nil
}
