package k8sleader_test

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/k8sleader"
)

func put(t testing.TB, b *k8sleader.Backend, r backend.Record) backend.Record {
	t.Helper()
	version, err := b.PutRecord(t.Context(), r)
	if err != nil {
		t.Fatalf("PutRecord(%q): %v", r.Key, err)
	}
	r.Version = version
	return r
}

func TestBackend_Record_IsALeaseWithoutAHolder(t *testing.T) {
	c := sharedCluster(t)
	b := c.open(t)
	put(t, b, backend.Record{Key: "job!candidate/web-1", Value: []byte(`{"score":1}`), TTL: 90 * time.Second})
	list, err := c.leases.List(t.Context(), metav1.ListOptions{LabelSelector: note("kind") + "=record"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d records, %v", len(list.Items), err)
	}
	object := &list.Items[0]
	if identity(object) != "" || *object.Spec.LeaseDurationSeconds != 90 || object.Annotations[note("key")] != "job!candidate/web-1" ||
		object.Annotations[note("value")] != `text:{"score":1}` {
		t.Errorf("%+v, %v", object.Spec, object.Annotations)
	}
}

func TestBackend_Record_EndsAtMostTwoSecondsLateAndIsDeleted(t *testing.T) {
	c := sharedCluster(t)
	a, b := c.open(t), c.open(t)
	sent := time.Now()
	put(t, a, backend.Record{Key: "job!run/1", TTL: brief})
	answered := time.Now()
	var ended time.Duration
	eventually(t, "the record has ended", func() bool {
		list, now, err := b.GetRecords(t.Context(), "job!run/")
		if err != nil || now.IsZero() {
			t.Fatal(now, err)
		}
		ended = time.Since(answered)
		return len(list) == 0
	})
	if time.Since(sent) < brief || ended > brief+2*time.Second+500*time.Millisecond {
		t.Errorf("ended after %v", ended)
	}
	list, err := c.leases.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 0 {
		t.Errorf("%d objects are left, %v", len(list.Items), err)
	}
}

func TestBackend_Record_IsNotDisturbedByAStrangersAnnotation(t *testing.T) {
	c := sharedCluster(t)
	b := c.open(t)
	r := put(t, b, backend.Record{Key: "job!run/1", Value: []byte("1")})
	list, err := c.leases.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatal(err)
	}
	name := list.Items[0].Name
	c.edit(t, name, func(lease *coordinationv1.Lease) { lease.Annotations["example.com/touched"] = "yes" })
	r = put(t, b, r)
	c.edit(t, name, func(lease *coordinationv1.Lease) { lease.Annotations["example.com/touched"] = "again" })
	if c.get(t, name).Annotations["example.com/touched"] != "again" {
		t.Error("the annotation is gone")
	}
	if err := b.DeleteRecord(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func TestBackend_Record_OfAnotherMajorVersionIsLeftAlone(t *testing.T) {
	c := sharedCluster(t)
	b := c.open(t)
	r := put(t, b, backend.Record{Key: "job!run/1", TTL: brief})
	list, err := c.leases.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatal(err)
	}
	name := list.Items[0].Name
	c.edit(t, name, func(lease *coordinationv1.Lease) { lease.Annotations[note("format")] = "2" })
	time.Sleep(brief + 2*time.Second) // its end
	version := c.get(t, name).ResourceVersion
	_, err = b.PutRecord(t.Context(), backend.Record{Key: r.Key})
	misconfigured(t, "PutRecord of a new one", err)
	_, err = b.PutRecord(t.Context(), backend.Record{Key: r.Key, Version: "x.0"})
	misconfigured(t, "PutRecord of another version", err)
	misconfigured(t, "DeleteRecord", b.DeleteRecord(t.Context(), r))
	if c.get(t, name).ResourceVersion != version {
		t.Error("it was written")
	}
}

func TestBackend_Records_RefuseOtherKeysAndTTLs(t *testing.T) {
	b := sharedCluster(t).open(t)
	for _, key := range []string{"job", "job!run", "job#0"} {
		_, err := b.PutRecord(t.Context(), backend.Record{Key: key})
		misconfigured(t, "PutRecord of "+key, err)
		_, _, err = b.GetRecords(t.Context(), key)
		misconfigured(t, "GetRecords of "+key, err)
		misconfigured(t, "DeleteRecord of "+key, b.DeleteRecord(t.Context(), backend.Record{Key: key}))
	}
	_, err := b.PutRecord(t.Context(), backend.Record{Key: "job!run/1", TTL: -1})
	misconfigured(t, "a negative TTL", err)
}

func misconfigured(t testing.TB, what string, err error) {
	t.Helper()
	if backend.KindOf(err) != backend.Misconfigured || errors.Is(err, backend.ErrConflict) {
		t.Errorf("%s: %v, want an error of kind Misconfigured", what, err)
	}
}
