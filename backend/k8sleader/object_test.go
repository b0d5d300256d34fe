package k8sleader_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/goleader/leader/backend"
)

func note(name string) string { return "goleader.github.io/" + name }

func identity(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func TestBackend_Lease_IsReadable(t *testing.T) {
	c := sharedCluster(t)
	b := c.open(t)
	req := request("nightly", 1500*time.Millisecond)
	req.Metadata = map[string]string{"zone": "a"}
	before := time.Now().Add(-time.Minute)
	lease := win(t, b, req)

	object := c.get(t, "nightly")
	spec := object.Spec
	if identity(object) != "node-1" || *spec.LeaseDurationSeconds != 2 || *spec.LeaseTransitions != 0 {
		t.Errorf("spec %+v", spec)
	}
	if !spec.AcquireTime.After(before) || !spec.RenewTime.Equal(spec.AcquireTime) {
		t.Errorf("acquired %v, renewed %v", spec.AcquireTime, spec.RenewTime)
	}
	for name, want := range map[string]string{
		"format": "1", "key": "nightly", "owner": "node-1", "ttl": "1.5s", "token": req.Token, "metadata": `{"zone":"a"}`,
	} {
		if got := object.Annotations[note(name)]; got != want {
			t.Errorf("annotation %s is %q, want %q", name, got, want)
		}
	}

	renew(t, lease, long)
	renewed := c.get(t, "nightly").Spec
	if !renewed.RenewTime.After(spec.RenewTime.Time) || !renewed.AcquireTime.Equal(spec.AcquireTime) ||
		*renewed.LeaseDurationSeconds != shownSeconds(long, spec, renewed) {
		t.Errorf("after a renewal: %+v", renewed)
	}

	release(t, lease, 0)
	object = c.get(t, "nightly")
	if identity(object) != "" || object.Annotations[note("token")] != "" || object.Annotations[note("spent")] != req.Token {
		t.Errorf("after a release: %+v, %v", object.Spec, object.Annotations)
	}
}

// shownSeconds is what a whole number of seconds looks like that was written in the second of the last write, or not.
func shownSeconds(d time.Duration, last, now coordinationv1.LeaseSpec) int32 {
	if last.RenewTime.Unix() == now.RenewTime.Unix() {
		d += time.Second
	}
	return int32(d.Seconds())
}

func TestBackend_Lease_CountsTransitionsAndTellsWhenTheTermBegan(t *testing.T) {
	c := sharedCluster(t)
	b := c.open(t)
	var last time.Time
	for want := range int32(4) {
		lease := win(t, b, request("a", long))
		spec := c.get(t, "a").Spec
		if *spec.LeaseTransitions != want || !spec.AcquireTime.After(last) {
			t.Errorf("%d transitions, acquired %v after %v, want %d", *spec.LeaseTransitions, spec.AcquireTime, last, want)
		}
		if since := inspect(t, b, "a").Since; !since.Equal(spec.AcquireTime.Time) {
			t.Errorf("since %v, want %v", since, spec.AcquireTime)
		}
		last = spec.AcquireTime.Time
		release(t, lease, 0)
	}
}

func TestBackend_Lease_KeptLooksTakenToOthers(t *testing.T) {
	c := sharedCluster(t)
	b := c.open(t)
	lease := win(t, b, request("a", long))
	held := c.get(t, "a").Spec
	release(t, lease, 90*time.Second)
	object := c.get(t, "a")
	if identity(object) != "node-1" || *object.Spec.LeaseDurationSeconds != shownSeconds(90*time.Second, held, object.Spec) {
		t.Errorf("a kept key shows %+v", object.Spec)
	}
}

func TestBackend_TryAcquire_KeepsWhatOthersWroteInTheLease(t *testing.T) {
	c := sharedCluster(t)
	b := c.open(t)
	release(t, win(t, b, request("a", long)), 0)
	c.edit(t, "a", func(lease *coordinationv1.Lease) {
		lease.Annotations["example.com/owner"] = "team"
		lease.Annotations[note("later")] = "a field of a later release"
		lease.Annotations[note("format")] = "1.7"
		lease.Labels["team"] = "a"
	})
	lease := win(t, b, request("a", long))
	renew(t, lease, long)
	release(t, lease, 0)
	object := c.get(t, "a")
	if object.Annotations["example.com/owner"] != "team" || object.Annotations[note("later")] == "" || object.Labels["team"] != "a" {
		t.Errorf("annotations %v, labels %v", object.Annotations, object.Labels)
	}
}

func TestBackend_Annotation_NeitherProlongsNorEndsALease(t *testing.T) {
	c := sharedCluster(t)
	a, b := c.open(t), c.open(t)
	touch := func() {
		c.edit(t, "a", func(lease *coordinationv1.Lease) {
			lease.Annotations["kubectl.kubernetes.io/touched"] = time.Now().String()
		})
	}
	sent := time.Now()
	lease := win(t, a, request("a", brief))
	holder(t, b, "a")
	for range 3 { // conflicts for whoever would write on the condition of a version
		touch()
		renew(t, lease, brief)
	}
	renewed := time.Now()
	touch()
	holder(t, b, "a")
	var took time.Duration
	eventually(t, "the lease can be taken over", func() bool {
		touch()
		_, err := b.TryAcquire(t.Context(), request("a", long))
		took = time.Since(renewed)
		return err == nil
	})
	if took < brief-100*time.Millisecond || took > brief+time.Second {
		t.Errorf("taken over %v after the last renewal, in spite of a TTL of %v", took, brief)
	}
	if time.Since(sent) < brief {
		t.Error("taken over before its end")
	}
	again := win(t, a, request("b", long))
	c.edit(t, "b", func(lease *coordinationv1.Lease) { lease.Annotations["touched"] = "yes" })
	release(t, again, 0)
	if !inspect(t, b, "b").Free() {
		t.Error("the release failed because of an annotation")
	}
}

func TestBackend_Fence_GrowsOverDeletionAndRestoredAnnotations(t *testing.T) {
	c := sharedCluster(t)
	a, b := c.open(t), c.open(t)
	last := uint64(0)
	for range 5 {
		for _, d := range []backend.Driver{a, b} {
			lease := win(t, d, request("a", long))
			if lease.Fence() <= last {
				t.Fatalf("fence %d after %d", lease.Fence(), last)
			}
			last = lease.Fence()
			if err := c.leases.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestLease_Renew_IsLostWhenTheLeaseWasEditedOrDeleted(t *testing.T) {
	c := sharedCluster(t)
	b := c.open(t)
	for name, change := range map[string]func(lease *coordinationv1.Lease){
		"holder":  func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = new("somebody") },
		"freed":   func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = nil },
		"renewed": func(lease *coordinationv1.Lease) { lease.Spec.RenewTime = new(metav1.NowMicro()) },
		"token":   func(lease *coordinationv1.Lease) { delete(lease.Annotations, note("token")) },
		"bare":    func(lease *coordinationv1.Lease) { lease.Annotations = nil },
		"deleted": nil,
	} {
		t.Run(name, func(t *testing.T) {
			lease := win(t, b, request(name, long))
			if change == nil {
				if err := c.leases.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			} else {
				c.edit(t, name, change)
			}
			lost(t, "Renew", lease.Renew(t.Context(), long))
			release(t, lease, 0)
			release(t, lease, long)
		})
	}
	if h := holder(t, b, "holder"); h.Owner != "somebody" || h.Fence == 0 {
		t.Errorf("the release touched the new holder: %+v", h)
	}
}

func TestBackend_Keys_BeyondSubdomainsAreGivenBack(t *testing.T) {
	c := sharedCluster(t)
	b := c.open(t)
	looksHashed := "job.h-" + strings.Repeat("0", 32)
	keys := []string{"plain", "a.b-c", "Nightly Report", "nightly report", "team/job", "job#0", "日本", looksHashed, "-a", "a..b"}
	for _, key := range keys {
		win(t, b, request(key, long))
	}
	found := map[string]bool{}
	for e, err := range b.List(t.Context(), "", false) {
		if err != nil {
			t.Fatal(err)
		}
		found[e.Key] = true
	}
	for _, key := range keys {
		if !found[key] {
			t.Errorf("List does not give %q back", key)
		}
	}
	for _, name := range []string{"plain", "a.b-c"} {
		if identity(c.get(t, name)) != "node-1" {
			t.Errorf("key %q is not the name of its Lease", name)
		}
	}
	list, err := c.leases.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != len(keys) {
		t.Errorf("%d Leases for %d keys, %v", len(list.Items), len(keys), err)
	}
}

func TestBackend_ForeignObjects_ChangeNothing(t *testing.T) {
	c := sharedCluster(t)
	b := c.open(t)
	lease := win(t, b, request("job", long))
	labels := map[string]string{note("kind"): "lease"}
	for _, object := range []*coordinationv1.Lease{
		{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "job2", Labels: labels}},
		{ObjectMeta: metav1.ObjectMeta{Name: "copied", Labels: labels, Annotations: c.get(t, "job").Annotations}},
		{ObjectMeta: metav1.ObjectMeta{
			Name: "garbled", Labels: labels, Annotations: map[string]string{note("format"): "x", note("key"): "garbled"},
		}},
	} {
		if _, err := c.leases.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var keys []string
	for e, err := range b.List(t.Context(), "", true) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.Key)
	}
	if strings.Join(keys, " ") != "job" {
		t.Errorf("List yields %q", keys)
	}
	renew(t, lease, long)
	if h := holder(t, b, "job"); h.Fence != lease.Fence() {
		t.Errorf("held by %+v", h)
	}
	for _, free := range []string{"other", "job2"} {
		win(t, b, request(free, long))
	}
	if _, err := b.TryAcquire(t.Context(), request("garbled", long)); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("a record of another major version: %v", err)
	}
}

func TestBackend_Break_EndsAForeignHolderToo(t *testing.T) {
	c := sharedCluster(t)
	b := c.open(t)
	makeForeign(t, c, "a", 3600)
	h := holder(t, b, "a")
	if err := b.Break(t.Context(), "a", h.Fence+1); !errors.Is(err, backend.ErrConflict) {
		t.Errorf("Break under another fence: %v", err)
	}
	if err := b.Break(t.Context(), "a", h.Fence); err != nil {
		t.Fatal(err)
	}
	if lease := win(t, b, request("a", long)); lease.Fence() <= h.Fence {
		t.Errorf("fence %d after that of a foreign holder, %d", lease.Fence(), h.Fence)
	}
}

// makeForeign makes a Lease as client-go would.
func makeForeign(t testing.TB, c *cluster, name string, seconds int32) {
	t.Helper()
	now := metav1.NowMicro()
	object := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("foreign"), LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now,
			LeaseTransitions: new(int32(3)),
		},
	}
	if _, err := c.leases.Create(context.WithoutCancel(t.Context()), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
