package k8sleader_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/testserver"
)

// verbs are those that the package comment names.
var verbs = []string{"get", "create", "update", "patch", "watch", "list", "delete"}

// grant lets the guest do nothing but the verbs with Leases.
func grant(t testing.TB, c *cluster, verbs ...string) {
	t.Helper()
	roles := c.client.RbacV1().Roles(c.namespace)
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "leader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: verbs}},
	}
	if _, err := roles.Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		return
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "leader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "leader"},
		Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "guest"}},
	}
	if _, err := c.client.RbacV1().RoleBindings(c.namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func without(verb string) []string {
	return slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return v == verb })
}

func TestBackend_RBAC_NamesTheMissingVerb(t *testing.T) {
	server := testserver.Kube(t, testserver.KubeRBAC())
	calls := map[string]func(t testing.TB, b backend.Driver) error{
		"get": func(t testing.TB, b backend.Driver) error {
			_, err := b.Inspect(t.Context(), "a")
			return err
		},
		"create": func(t testing.TB, b backend.Driver) error {
			_, err := b.TryAcquire(t.Context(), request("new", long))
			return err
		},
		"update": func(t testing.TB, b backend.Driver) error {
			_, err := b.TryAcquire(t.Context(), request("free", long))
			return err
		},
		"patch": func(t testing.TB, b backend.Driver) error {
			return win(t, b, request("free", long)).Renew(t.Context(), long)
		},
		"watch": func(t testing.TB, b backend.Driver) error {
			w, _ := backend.As[backend.Waiter](b)
			return w.AwaitRelease(t.Context(), "held", "seen")
		},
		"list": func(t testing.TB, b backend.Driver) error {
			r, _ := backend.As[backend.Records](b)
			_, _, err := r.GetRecords(t.Context(), "a!run/")
			return err
		},
		"delete": func(t testing.TB, b backend.Driver) error {
			r, _ := backend.As[backend.Records](b)
			version, err := r.PutRecord(t.Context(), backend.Record{Key: "a!run/1"})
			if err != nil {
				t.Fatal(err)
			}
			return r.DeleteRecord(t.Context(), backend.Record{Key: "a!run/1", Version: version})
		},
	}
	clusters := map[string]*cluster{}
	for _, verb := range verbs { // all before the first, for roles take effect a moment after they were made
		c := newCluster(t, server)
		clusters[verb] = c
		admin := c.open(t)
		release(t, win(t, admin, request("free", long)), 0)
		win(t, admin, request("held", long))
		grant(t, c, without(verb)...)
	}
	for _, verb := range verbs {
		t.Run(verb, func(t *testing.T) {
			c := clusters[verb]
			guest := open(t, clientOf(t, configOf(t, server.Guest())).CoordinationV1(), c.namespace)
			eventually(t, "the role is in force", func() bool {
				var err error
				if verb == "get" {
					_, _, err = guest.GetRecords(t.Context(), "a!run/")
				} else {
					_, err = guest.Inspect(t.Context(), "a")
				}
				return err == nil
			})
			err := calls[verb](t, guest)
			if backend.KindOf(err) != backend.Denied || !strings.Contains(err.Error(), fmt.Sprintf("%q", verb)) ||
				!strings.Contains(err.Error(), c.namespace) {
				t.Errorf("without %s: %v, of kind %v", verb, err, backend.KindOf(err))
			}
			warnings, err := guest.Advise(t.Context())
			warned := slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, fmt.Sprintf("%q", verb)) })
			if want := slices.Contains([]string{"watch", "list", "delete"}, verb); err != nil || warned != want || len(warnings) > 1 {
				t.Errorf("without %s: warnings %q, %v", verb, warnings, err)
			}
		})
	}
	t.Run("all", func(t *testing.T) {
		c := newCluster(t, server)
		guest := open(t, clientOf(t, configOf(t, server.Guest())).CoordinationV1(), c.namespace)
		grant(t, c, verbs...)
		eventually(t, "the role is in force", func() bool {
			_, err := guest.Inspect(t.Context(), "a")
			return err == nil
		})
		for _, verb := range verbs[1:] {
			if verb == "watch" {
				continue // it would wait
			}
			if verb == "update" || verb == "patch" {
				release(t, win(t, guest, request("free", long)), 0)
			}
			if err := calls[verb](t, guest); err != nil {
				t.Errorf("%s: %v", verb, err)
			}
			if verb == "update" {
				c.deleteAll(t)
			}
		}
		if warnings, err := guest.Advise(t.Context()); err != nil || len(warnings) > 0 {
			t.Errorf("warnings %q, %v", warnings, err)
		}
	})
}

func (c *cluster) deleteAll(t testing.TB) {
	t.Helper()
	if err := c.leases.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
}
