package k8sleader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

// takeOver attempts until the key can be had, and returns when that was.
func takeOver(t testing.TB, b backend.Driver, key string, ttl time.Duration) time.Time {
	t.Helper()
	eventually(t, key+" can be taken over", func() bool {
		_, err := b.TryAcquire(t.Context(), request(key, ttl))
		if err != nil && !errors.Is(err, backend.ErrHeld) {
			t.Fatal(err)
		}
		return err == nil
	})
	return time.Now()
}

func TestBackend_Expiry_IsThatOfTheHolderNotOfTheAsker(t *testing.T) {
	c := sharedCluster(t)
	a, b := c.open(t), c.open(t)
	const ttl = 4 * brief
	sent := time.Now()
	win(t, a, request("a", ttl))
	if took := takeOver(t, b, "a", brief).Sub(sent); took < ttl {
		t.Errorf("an asker of %v took the key %v after a holder of %v", brief, took, ttl)
	}

	win(t, a, request("b", brief))
	sent = time.Now()
	if took := takeOver(t, b, "b", long).Sub(sent); took > 2*brief+time.Second {
		t.Errorf("an asker of %v took the key %v after a holder of %v", long, took, brief)
	}
}

func TestBackend_Expiry_OfForeignHoldersIsTheirsToo(t *testing.T) {
	c := sharedCluster(t)
	b := c.open(t)
	makeForeign(t, c, "a", 2)
	sent := time.Now()
	if h := holder(t, b, "a"); h.Owner != "foreign" || h.Kept || h.Remaining > 2*time.Second {
		t.Errorf("holder %+v", h)
	}
	if took := takeOver(t, b, "a", long).Sub(sent); took < 2*time.Second {
		t.Errorf("taken over after %v", took)
	}
}

// A caller who never waits takes over as soon as one who does.
func TestRunIfLeader_WithoutWaiting_TakesOverADeadHolder(t *testing.T) {
	c := sharedCluster(t)
	dead, alive := c.open(t), c.open(t)
	e, err := leader.New(alive, leader.WithLeaseTime(2*brief), leader.WithLogger(quiet()))
	if err != nil {
		t.Fatal(err)
	}
	died := time.Now()
	win(t, dead, request("job", 2*brief))
	var ran time.Time
	for ran.IsZero() {
		if _, err := e.RunIfLeader(t.Context(), "job", func(context.Context) error {
			ran = time.Now()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if time.Since(died) > patience {
			t.Fatal("never led")
		}
		time.Sleep(100 * time.Millisecond) // the caller's own rhythm
	}
	if took := ran.Sub(died); took < 2*brief || took > 3*brief {
		t.Errorf("led %v after the death of a holder with a lease of %v", took, 2*brief)
	}
}

// One who looks in vain for a while and then comes back finds the time that has passed counted.
func TestBackend_Expiry_IsRememberedFromCallToCall(t *testing.T) {
	c := sharedCluster(t)
	a, b := c.open(t), c.open(t)
	win(t, a, request("a", brief))
	inspect(t, b, "a")
	time.Sleep(brief + 50*time.Millisecond)
	win(t, b, request("a", long))
}

// A newcomer cannot know since when a Lease has not changed, unless the server says that it has been very long.
func TestBackend_FirstSight_WaitsALeaseUnlessTheServerKnowsItIsOld(t *testing.T) {
	c := sharedCluster(t)
	dead := c.open(t)
	for _, key := range []string{"young", "old"} {
		win(t, dead, request(key, brief))
	}
	makeForeign(t, c, "foreign", 1)
	age := func(name string, by time.Duration) {
		c.edit(t, name, func(lease *coordinationv1.Lease) {
			// The server takes no change that is of these times alone.
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, "example.com/aged", by.String())
			for i, entry := range lease.ManagedFields {
				lease.ManagedFields[i].Time.Time = entry.Time.Add(-by)
			}
		})
	}
	age("young", 2*brief+50*time.Second)
	age("old", 2*brief+70*time.Second)
	age("foreign", 2*brief+70*time.Second)
	newcomer := c.open(t)
	for _, key := range []string{"old", "foreign"} {
		win(t, newcomer, request(key, long))
	}
	sent := time.Now()
	holder(t, newcomer, "young")
	if took := takeOver(t, newcomer, "young", long).Sub(sent); took < brief {
		t.Errorf("taken over %v after the first sight", took)
	}
}
