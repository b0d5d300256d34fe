package main

import (
	"regexp"
	"testing"

	"github.com/goleader/leader/examples/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

func TestK8sLease_ShowsAcquireConflictReleaseReacquire(t *testing.T) {
	out := exampletest.Run(t, exampletest.Build(t), "-kubeconfig", testserver.Kube(t).Config(), "-namespace", "default")
	t.Logf("\n%s", out)
	shown := regexp.MustCompile(`^a acquires +holderIdentity="a" leaseTransitions=\d+ resourceVersion=(\d+)
b is refused +holderIdentity="a" leaseTransitions=\d+ resourceVersion=(\d+)
a releases +holderIdentity="" leaseTransitions=\d+ resourceVersion=\d+
b acquires +holderIdentity="b" leaseTransitions=\d+ resourceVersion=\d+
the fence grew: true
$`).FindStringSubmatch(out)
	if shown == nil {
		t.Fatal("not what the README shows")
	}
	if shown[1] != shown[2] {
		t.Errorf("the losing attempt changed the Lease from version %s to %s", shown[1], shown[2])
	}
}
