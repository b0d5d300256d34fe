package rig

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/testserver"
)

// fieldManager is who writes, as the driver has it.
const fieldManager = "leader"

// kubernetesTerm is what the driver sends to acquire and to release a key.
type kubernetesTerm struct {
	object       *coordinationv1.Lease // as the release left it
	held         *coordinationv1.Lease // as the acquisition sent it
	patch        []byte                // of the release
	token, fence string                // that are in both
}

// acquire updates an object, and returns it as it is then.
func (s *kubernetesTerm) acquire(
	ctx context.Context, leases coordination.LeaseInterface, object *coordinationv1.Lease, token string,
) (*coordinationv1.Lease, error) {
	version, err := strconv.ParseUint(object.ResourceVersion, 10, 64)
	if err != nil {
		return nil, err
	}
	object = object.DeepCopy()
	object.Annotations, object.ManagedFields = maps.Clone(s.held.Annotations), nil
	for key, value := range object.Annotations {
		switch value {
		case s.token:
			object.Annotations[key] = token
		case s.fence:
			object.Annotations[key] = strconv.FormatUint(version+1, 10)
		}
	}
	s.held.Spec.DeepCopyInto(&object.Spec)
	return leases.Update(ctx, object, metav1.UpdateOptions{FieldManager: fieldManager})
}

// release patches an object that acquire returned, and returns it as it is then.
func (s *kubernetesTerm) release(
	ctx context.Context, leases coordination.LeaseInterface, held *coordinationv1.Lease,
) (*coordinationv1.Lease, error) {
	patch := s.patch
	for key, value := range s.held.Annotations {
		if value == s.token || value == s.fence {
			patch = bytes.ReplaceAll(patch, quoted(value), quoted(held.Annotations[key]))
		}
	}
	return leases.Patch(ctx, held.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
}

func quoted(text string) []byte { return []byte(`"` + text + `"`) }

// isFree reports whether nobody holds an object.
func isFree(object *coordinationv1.Lease) bool {
	return object.Spec.HolderIdentity == nil || *object.Spec.HolderIdentity == ""
}

// awaitFree returns the object when nobody holds it.
func awaitFree(ctx context.Context, changes watch.Interface) (*coordinationv1.Lease, error) {
	for {
		select {
		case event, ok := <-changes.ResultChan():
			if !ok || event.Type == watch.Error {
				return nil, errors.New("the watch has ended")
			}
			if object, ok := event.Object.(*coordinationv1.Lease); ok && isFree(object) {
				return object, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// record looks at what the driver sends for a term of key.
func (k *Kubernetes) record(t testserver.TB, key string) *kubernetesTerm {
	t.Helper()
	rec := new(httpRecorder)
	driver := k.driver(t, k.dial(t, rec.wrap))
	token := rand.Text()
	once := func(token string) (fence uint64) {
		l, err := driver.TryAcquire(t.Context(), backend.Request{Key: key, Token: token, Owner: owner, TTL: lease})
		if err == nil {
			fence, err = l.Fence(), l.Release(t.Context(), 0)
		}
		if err != nil {
			t.Fatalf("record a term: %v", err)
		}
		return fence
	}
	once(rand.Text()) // makes the object
	rec.forget()
	fence := once(token)
	s, err := kubernetesTermOf(rec.sent(), token, strconv.FormatUint(fence, 10))
	if err == nil {
		s.object, err = k.client.Leases(namespace).Get(t.Context(), s.held.Name, metav1.GetOptions{})
	}
	if err != nil {
		t.Fatalf("what the driver sends for a term: %v", err)
	}
	return s
}

// recordSkip looks at what the driver sends for an attempt at a key that is held, and returns the object's name.
func (k *Kubernetes) recordSkip(t testserver.TB, key string) string {
	t.Helper()
	rec := new(httpRecorder)
	driver := k.driver(t, k.dial(t, rec.wrap))
	_, err := driver.TryAcquire(t.Context(), backend.Request{Key: key, Token: rand.Text(), Owner: owner, TTL: lease})
	if !errors.Is(err, backend.ErrHeld) {
		t.Fatalf("record an attempt at a held key: %v", err)
	}
	sent := rec.sent()
	if len(sent) != 1 || sent[0].method != http.MethodGet || sent[0].url.RawQuery != "" {
		t.Fatalf("the driver does not send one plain read for an attempt at a held key")
	}
	return path.Base(sent[0].url.Path)
}

// kubernetesTermOf is what was sent, if it is what [kubernetesTerm] sends.
func kubernetesTermOf(sent []httpRequest, token, fence string) (*kubernetesTerm, error) {
	if len(sent) != 2 || sent[0].method != http.MethodPut || sent[1].method != http.MethodPatch {
		return nil, fmt.Errorf("%d requests, not an update and a patch", len(sent))
	}
	s := &kubernetesTerm{held: new(coordinationv1.Lease), patch: sent[1].body, token: token, fence: fence}
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(sent[0].body, nil, s.held); err != nil {
		return nil, err
	}
	var operations []map[string]any
	if err := json.Unmarshal(s.patch, &operations); err != nil {
		return nil, err
	}
	var tokens, fences int
	for _, value := range s.held.Annotations {
		switch value {
		case token:
			tokens++
		case fence:
			fences++
		}
	}
	inPatch := bytes.Contains(s.patch, quoted(token)) && bytes.Contains(s.patch, quoted(fence))
	if tokens != 1 || fences != 1 || !inPatch {
		return nil, errors.New("the token or the fence is not in the requests")
	}
	return s, nil
}
