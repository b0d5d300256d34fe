package consulleader_test

import (
	"errors"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/consulleader"
	"github.com/goleader/leader/internal/testserver"
)

const management = "6b1b9b0c-4a53-4d1f-9c35-1d0f9a7d2e11"

// withRules returns a client whose token has the rules given.
func withRules(t testing.TB, server *testserver.Server, name, rules string) *api.Client {
	t.Helper()
	acl := connect(t, server).ACL()
	policy, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: name, Rules: rules}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := acl.TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{ID: policy.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return connectTo(t, server.Addr(), token.SecretID)
}

// The rules of the package comment.
const (
	documentedRules = `key_prefix "leader/" { policy = "write" } session_prefix "" { policy = "write" }`
	adviseRules     = ` agent_prefix "" { policy = "read" }`
)

func TestBackend_ACL_TheDocumentedRulesAreEnough(t *testing.T) {
	t.Parallel()
	server := ownServer(t, testserver.ConsulACL(management))
	b := open(t, withRules(t, server, "documented", documentedRules+adviseRules), nil)
	lease := win(t, b, request("a", long))
	renew(t, lease)
	holder(t, b, "a")
	if err := b.Break(t.Context(), "a", lease.Fence()); err != nil {
		t.Error(err)
	}
	release(t, win(t, b, request("a", long)), ttl)
	if _, _, err := b.TryAcquireSlot(t.Context(), request("g", long), 2); err != nil {
		t.Error(err)
	}
	if _, err := b.PutRecord(t.Context(), backend.Record{Key: "a!k/1", TTL: long}); err != nil {
		t.Error(err)
	}
	if list, _, err := b.GetRecords(t.Context(), "a!k/"); err != nil || len(list) != 1 {
		t.Error(list, err)
	}
	for e, err := range b.List(t.Context(), "", true) {
		if err != nil {
			t.Error(e, err)
		}
	}
	if _, err := b.Advise(t.Context()); err != nil {
		t.Error(err)
	}
	if err := b.Abandon(t.Context(), request("a", long)); err != nil {
		t.Error(err)
	}
}

func TestBackend_ACL_WithoutPermissionIsDenied(t *testing.T) {
	t.Parallel()
	server := ownServer(t, testserver.ConsulACL(management))
	all := open(t, connect(t, server), nil)
	held := win(t, all, request("held", long))
	const (
		noKeys     = `session_prefix "" { policy = "write" }`
		noSessions = `key_prefix "leader/" { policy = "write" }`
		readOnly   = `key_prefix "leader/" { policy = "read" } session_prefix "" { policy = "write" }`
	)
	for name, client := range map[string]*api.Client{
		"no-token":    connectTo(t, server.Addr(), ""),
		"wrong-token": connectTo(t, server.Addr(), "00000000-1111-2222-3333-444444444444"),
		"no-keys":     withRules(t, server, "no-keys", noKeys),
		"no-sessions": withRules(t, server, "no-sessions", noSessions),
		"read-only":   withRules(t, server, "read-only", readOnly),
	} {
		b := open(t, client, nil)
		_, err := b.TryAcquire(t.Context(), request("a", long))
		kind(t, name+": TryAcquire", err, backend.Denied)
		if errors.Is(err, backend.ErrHeld) || errors.Is(err, backend.ErrLost) {
			t.Errorf("%s: %v", name, err)
		}
		_, err = b.PutRecord(t.Context(), backend.Record{Key: "a!k/1", TTL: long})
		kind(t, name+": PutRecord", err, backend.Denied)
		if name == "no-sessions" {
			continue // which can read and delete
		}
		kind(t, name+": Break", b.Break(t.Context(), "held", held.Fence()), backend.Denied)
		if name == "read-only" {
			continue
		}
		_, err = b.Inspect(t.Context(), "held")
		kind(t, name+": Inspect", err, backend.Denied)
	}
	renew(t, held)
}

func TestLease_Renew_IsDeniedWhenTheTokenWasDeleted(t *testing.T) {
	t.Parallel()
	server := ownServer(t, testserver.ConsulACL(management))
	client := withRules(t, server, "short-lived", documentedRules)
	b := open(t, client, nil)
	lease := win(t, b, request("a", long))
	self, _, err := client.ACL().TokenReadSelf(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, server).ACL().TokenDelete(self.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
	kind(t, "Renew", lease.Renew(t.Context(), long), backend.Denied)
	kind(t, "Release", lease.Release(t.Context(), 0), backend.Denied)
}

func TestBackend_Advise_WarnsOfWhatForgets(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		opts *consulleader.Options
		want int
	}{
		"nothing":                    {"leave_on_terminate = false", nil, 0},
		"leaving, covered":           {"leave_on_terminate = true", nil, 0},
		"leaving without lock-delay": {"leave_on_terminate = true", noDelay, 1},
	} {
		t.Run(name, func(t *testing.T) {
			server := ownServer(t, testserver.ConsulConfig(test.line))
			warnings, err := open(t, connect(t, server), test.opts).Advise(t.Context())
			if err != nil || len(warnings) != test.want {
				t.Errorf("warnings %q, %v, want %d", warnings, err, test.want)
			}
		})
	}
}
