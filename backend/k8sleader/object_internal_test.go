package k8sleader

import (
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/goleader/leader/backend"
)

// heldObject is a Lease that is held by us.
func heldObject(name string, rv uint64, token, stamp string) *coordinationv1.Lease {
	renewed, err := time.Parse(metav1.RFC3339Micro, stamp)
	if err != nil {
		panic(err)
	}
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, ResourceVersion: strconv.FormatUint(rv, 10), UID: "uid",
			Annotations: map[string]string{
				formatKey: format, keyKey: name, fenceKey: "7", tokenKey: token, ownerKey: "node-1", ttlKey: "1h0m0s", renewedKey: stamp,
			},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("node-1"), RenewTime: &metav1.MicroTime{Time: renewed}},
	}
}

const (
	stamp1 = "2025-01-01T00:00:00.000001Z"
	stamp2 = "2025-01-01T00:00:00.000002Z"
)

func mustRead(t *testing.T, object *coordinationv1.Lease) *state {
	t.Helper()
	s, err := read(object)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMemory_KeepsTheNewestAndWhenALifeWasFirstSeen(t *testing.T) {
	m := newMemory()
	m.note(mustRead(t, heldObject("a", 5, "x", stamp1)), &answer{sent: time.Now()})
	first := m.sights["a"].first
	touched := heldObject("a", 6, "x", stamp1)
	touched.Annotations["stranger"] = "yes"
	m.told(mustRead(t, touched))
	if e := m.sights["a"]; e.rv != 6 || !e.first.Equal(first) {
		t.Errorf("a stranger's change: version %d, first seen at %v, want 6, %v", e.rv, e.first, first)
	}
	m.told(mustRead(t, heldObject("a", 7, "x", stamp2)))
	if e := m.sights["a"]; e.rv != 7 || !e.first.After(first) {
		t.Errorf("a renewal: version %d, first seen at %v, want 7, after %v", e.rv, e.first, first)
	}
	m.told(mustRead(t, heldObject("a", 6, "x", stamp1)))
	m.toldGone("a", 6)
	m.note(mustRead(t, heldObject("a", 6, "x", stamp1)), &answer{sent: first})
	m.gone("a", &answer{sent: first})
	if v, ok := m.recall("a"); !ok || v.state == nil || v.rv != 7 {
		t.Errorf("what came late counts: %+v", v)
	}
	m.toldGone("a", 8)
	if v, ok := m.recall("a"); !ok || v.state != nil {
		t.Errorf("after a deletion: %+v, %t", v, ok)
	}
	recreated := heldObject("a", 9, "x", stamp2)
	recreated.UID = "other"
	m.told(mustRead(t, recreated))
	if v, _ := m.recall("a"); v.remaining < time.Hour-time.Minute {
		t.Errorf("the life of a re-created record began before it: %v remain", v.remaining)
	}
}

func TestMemory_TakesALowerVersionAfterARestore(t *testing.T) {
	m := newMemory()
	m.note(mustRead(t, heldObject("a", 500, "x", stamp1)), &answer{sent: time.Now()})
	m.note(mustRead(t, heldObject("a", 20, "y", stamp2)), &answer{sent: time.Now().Add(time.Second)})
	if v, _ := m.recall("a"); v.state == nil || v.rv != 20 {
		t.Errorf("after a restore: %+v", v)
	}
}

func TestMemory_DoubtKeepsSinceWhenALifeWasSeen(t *testing.T) {
	m := newMemory()
	m.note(mustRead(t, heldObject("a", 5, "x", stamp1)), &answer{sent: time.Now()})
	first := m.sights["a"].first
	m.doubt("a")
	if _, known := m.recall("a"); known {
		t.Error("what is in doubt is known")
	}
	m.note(mustRead(t, heldObject("a", 5, "x", stamp1)), &answer{sent: time.Now()})
	if e := m.sights["a"]; !e.first.Equal(first) {
		t.Errorf("first seen at %v, want %v", e.first, first)
	}
}

func TestMemory_ForgetsWhatNobodyAskedForInAWhile(t *testing.T) {
	m := newMemory()
	see := func(kind string, n int) {
		for i := range n {
			m.told(mustRead(t, heldObject(kind+strconv.Itoa(i), 5, "x", stamp1)))
		}
	}
	see("old", rememberAll)
	for _, e := range m.sights {
		e.used = time.Now().Add(-2 * rememberFor)
	}
	see("new", 1)
	if len(m.sights) != 1 {
		t.Errorf("%d objects are remembered, want 1", len(m.sights))
	}
	see("new", 3*rememberAll)
	if v, known := m.recall("new0"); !known || v.state == nil || len(m.sights) != 3*rememberAll {
		t.Errorf("what is in use was forgotten: %d objects are remembered, want %d", len(m.sights), 3*rememberAll)
	}
}

func TestMemory_AnAnswerFromBeforeADoubtIsNoDeletion(t *testing.T) {
	m := newMemory()
	asked := &answer{sent: time.Now()}
	m.note(mustRead(t, heldObject("a", 5, "x", stamp1)), &answer{sent: time.Now()})
	m.doubt("a")
	m.gone("a", asked)
	if v, known := m.recall("a"); known {
		t.Errorf("known, as %+v", v)
	}
}

func TestRead_OursCountOnlyTogetherWithTheSpec(t *testing.T) {
	for name, test := range map[string]struct {
		change func(object *coordinationv1.Lease)
		want   tenure
	}{
		"ours":               {func(*coordinationv1.Lease) {}, held},
		"another annotation": {func(o *coordinationv1.Lease) { o.Annotations["x"] = "y" }, held},
		"another duration":   {func(o *coordinationv1.Lease) { o.Spec.LeaseDurationSeconds = new(int32(1)) }, held},
		"another holder":     {func(o *coordinationv1.Lease) { o.Spec.HolderIdentity = new("x") }, foreign},
		"another time":       {func(o *coordinationv1.Lease) { o.Spec.RenewTime = nil }, foreign},
		"no token":           {func(o *coordinationv1.Lease) { delete(o.Annotations, tokenKey) }, foreign},
		"no annotations":     {func(o *coordinationv1.Lease) { o.Annotations = nil }, foreign},
		"no holder":          {func(o *coordinationv1.Lease) { o.Spec.HolderIdentity = nil }, free},
		"empty holder":       {func(o *coordinationv1.Lease) { o.Spec.HolderIdentity = new("") }, free},
	} {
		object := heldObject("a", 5, "x", stamp1)
		test.change(object)
		if s := mustRead(t, object); s.tenure != test.want {
			t.Errorf("%s: tenure %d, want %d", name, s.tenure, test.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("1", "7", "1s", "{}", "token", stamp1)
	f.Add("2", "", "-1s", "[", "", "")
	f.Fuzz(func(t *testing.T, version, fence, ttl, metadata, token, stamp string) {
		object := heldObject("a", 5, token, stamp1)
		notes := object.Annotations
		notes[formatKey], notes[fenceKey], notes[ttlKey], notes[metadataKey] = version, fence, ttl, metadata
		notes[renewedKey] = stamp
		s, err := read(object)
		if err != nil {
			if backend.KindOf(err) != backend.Misconfigured {
				t.Errorf("%v, of kind %v", err, backend.KindOf(err))
			}
			return
		}
		if s.tenure == held && (s.ttl <= 0 || s.fence == 0 || s.token == "") {
			t.Errorf("held with %+v", s)
		}
	})
}

func TestSeconds_RoundUp(t *testing.T) {
	for d, want := range map[time.Duration]int32{1: 1, time.Second: 1, 1500 * time.Millisecond: 2, time.Minute: 60} {
		if got := seconds(d); got != want {
			t.Errorf("%v is %d s, want %d", d, got, want)
		}
	}
}
