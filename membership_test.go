package leader_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

// candidateOf is what the store has of a node; the zero Candidate if it has none.
func candidateOf(t testing.TB, store *local.Backend, id string) leader.Candidate {
	t.Helper()
	for _, r := range recordsOf(t, store, seats) {
		var c leader.Candidate
		if err := json.Unmarshal(r.Value, &c); err != nil {
			t.Fatal(err)
		}
		if c.Node == id {
			return c
		}
	}
	return leader.Candidate{}
}

// wantCounted asserts how many runs of a node are counted after its next heartbeat.
func wantCounted(t testing.TB, n *node, successes, failures int64) {
	t.Helper()
	time.Sleep(heartbeat + time.Second)
	if c := candidateOf(t, n.d.store, "n"); c.Successes != successes || c.Failures != failures {
		t.Errorf("%d successes and %d failures are counted, want %d and %d", c.Successes, c.Failures, successes, failures)
	}
}

func TestMembership_SendsAHeartbeatEveryThirdOfTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, local.New(), "n", leader.FIFO())
		time.Sleep(10 * time.Minute)
		log := n.d.log(puts)
		for i, r := range log[1:] {
			if pause := r.at - log[i].at; pause > heartbeat || pause < heartbeat*9/10 || r.d != candidateTTL {
				t.Errorf("a heartbeat for %v after %v, want one for %v after %v", r.d, pause, candidateTTL, heartbeat)
			}
		}
		if c := candidateOf(t, n.d.store, "n"); c.Registered != n.d.began.UTC() && !c.Registered.Equal(n.d.began) {
			t.Errorf("registered at %v, want %v", c.Registered, n.d.began)
		}
	})
}

func TestMembership_Leave_DeletesTheSeatAndEndsTheHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, local.New(), "n", leader.FIFO())
		if list := recordsOf(t, n.d.store, seats); len(list) != 1 {
			t.Fatalf("%d seats, want 1", len(list))
		}
		for range 2 {
			if err := n.member.Leave(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if list := recordsOf(t, n.d.store, seats); len(list) != 0 {
			t.Errorf("%d seats after leaving", len(list))
		}
		before := n.d.count()
		time.Sleep(time.Hour)
		if n.d.count() != before || n.member.Err() != nil {
			t.Errorf("%d requests after leaving, error %v", n.d.count()-before, n.member.Err())
		}
		n.enroll(t)
		if got := n.run(t); got != 0 {
			t.Errorf("got %v after enrolling again, want a run", got)
		}
	})
}

func TestMembership_EndsWithTheContextOfItsEnrolment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := guest(t, local.New(), "n", leader.FIFO())
		ctx, cancel := context.WithCancel(t.Context())
		m, err := n.Enroll(ctx, "a", leader.Candidate{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		cancel()
		synctest.Wait()
		if list := recordsOf(t, n.d.store, seats); len(list) != 0 {
			t.Errorf("%d seats after the end", len(list))
		}
		if err := m.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		_, err = n.Enroll(ctx, "a", leader.Candidate{})
		wantIs(t, err, context.Canceled)
	})
}

func TestMembership_Leave_DeletesTheSeatAlsoWhereTheLastAnswerWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, local.New(), "n", leader.FIFO())
		n.d.onVerb(puts, losesAnswer(errDown))
		time.Sleep(heartbeat + time.Millisecond)
		n.d.heal()
		if err := n.member.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		if list := recordsOf(t, n.d.store, seats); len(list) != 0 {
			t.Errorf("%d seats after leaving", len(list))
		}
	})
}

func TestMembership_Leave_DeletesTheSeatAlsoInTheMiddleOfAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, local.New(), "n", leader.FIFO())
		writing := make(chan struct{})
		var once sync.Once
		n.d.onVerb(puts, func(ctx context.Context, apply func() error) error {
			err := apply()
			once.Do(func() { close(writing) })
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(100 * time.Millisecond):
			}
			return err
		})
		<-writing
		if err := n.member.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		if list := recordsOf(t, n.d.store, seats); len(list) != 0 {
			t.Errorf("%d seats after leaving", len(list))
		}
	})
}

func TestMembership_Leave_EndsWithItsContextWhereTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, local.New(), "n", leader.FIFO())
		n.d.partition()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		wantIs(t, n.member.Leave(ctx), context.DeadlineExceeded)
		wantAt(t, "returned", time.Since(began), 100*time.Millisecond, 0)
		time.Sleep(candidateTTL)
		if list := recordsOf(t, n.d.store, seats); len(list) != 0 {
			t.Errorf("%d seats a TTL later", len(list))
		}
	})
}

func TestMembership_Update_PublishesWithTheNextHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, local.New(), "n", leader.FIFO())
		m := map[string]string{"load": "3"}
		if err := n.member.Update(m); err != nil {
			t.Fatal(err)
		}
		m["load"] = "changed later"
		time.Sleep(heartbeat)
		synctest.Wait()
		if got := candidateOf(t, n.d.store, "n").Metadata; got["load"] != "3" {
			t.Errorf("metadata %v", got)
		}
		for _, bad := range []map[string]string{manyKeys(17), {"": "v"}, {"k": strings.Repeat("v", 257)}} {
			wantIs(t, n.member.Update(bad), leader.ErrInvalidOption)
		}
		time.Sleep(heartbeat)
		if got := candidateOf(t, n.d.store, "n").Metadata; len(got) != 1 || got["load"] != "3" {
			t.Errorf("metadata %v after refused updates", got)
		}
	})
}

func TestMembership_Enroll_RefusesWhatBreaksItsRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := guest(t, local.New(), "n", leader.FIFO())
		rows := map[string]struct {
			name string
			c    leader.Candidate
			want error
		}{
			"name":     {"", leader.Candidate{}, leader.ErrInvalidName},
			"node":     {"a", leader.Candidate{Node: "a\nb"}, leader.ErrInvalidName},
			"long":     {"a", leader.Candidate{Node: strings.Repeat("n", 256)}, leader.ErrInvalidName},
			"metadata": {"a", leader.Candidate{Metadata: manyKeys(17)}, leader.ErrInvalidOption},
		}
		for name, row := range rows {
			m, err := n.Enroll(t.Context(), row.name, row.c)
			if m != nil || !errors.Is(err, row.want) {
				t.Errorf("%s: got %v, %v", name, m, err)
			}
		}
		if n.d.count() != 0 {
			t.Errorf("%d requests of refused calls", n.d.count())
		}
	})
}

func TestMembership_Enroll_TakesTheNodeOfTheCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := guest(t, local.New(), "n", leader.FIFO())
		meta := map[string]string{"zone": "b"}
		m, err := n.Enroll(t.Context(), "a", leader.Candidate{Node: "another/n!#%", Metadata: meta})
		if err != nil {
			t.Fatal(err)
		}
		meta["zone"] = "changed later"
		time.Sleep(heartbeat + time.Second)
		if c := candidateOf(t, n.d.store, "another/n!#%"); c.Metadata["zone"] != "b" {
			t.Errorf("got %+v", c)
		}
		if got := n.run(t); got != 0 {
			t.Errorf("got %v, want a run", got)
		}
		if err := m.Leave(t.Context()); err != nil || len(recordsOf(t, n.d.store, seats)) != 0 {
			t.Errorf("got %v, and %d seats", err, len(recordsOf(t, n.d.store, seats)))
		}
	})
}

func TestMembership_CountsWhatBecameOfItsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, local.New(), "n", leader.FIFO())
		start := time.Now()
		run := func(ctx context.Context, action leader.Action) {
			defer func() { _ = recover() }()
			_, _ = n.RunIfLeader(ctx, "a", action)
		}
		time.Sleep(heartbeat + time.Second)
		run(t.Context(), works(time.Second))
		wantCounted(t, n, 1, 0)
		c := candidateOf(t, n.d.store, "n")
		for what, at := range map[string]time.Time{"finished": c.LastFinish, "succeeded": c.LastOK, "started": c.LastStart.Add(time.Second)} {
			wantAt(t, what, at.Sub(start), heartbeat+2*time.Second, time.Millisecond)
		}
		run(t.Context(), func(context.Context) error { return errAction })
		wantCounted(t, n, 1, 1)
		run(t.Context(), func(context.Context) error { panic(errAction) })
		wantCounted(t, n, 1, 2)
		if c := candidateOf(t, n.d.store, "n"); !c.LastOK.Equal(c.LastFinish) && c.LastOK.After(c.LastFinish) {
			t.Errorf("got %+v", c)
		}
	})
}

func TestMembership_CountsNoRunThatItsCallerCancelled(t *testing.T) {
	errStop := errors.New("stopped by the caller")
	actions := map[string]leader.Action{
		"returns ctx.Err":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"returns a cause":  untilDone,
		"wraps the cause":  func(ctx context.Context) error { return fmt.Errorf("work: %w", untilDone(ctx)) },
		"wraps ctx's text": func(ctx context.Context) error { <-ctx.Done(); return fmt.Errorf("work: %w", ctx.Err()) },
	}
	for name, action := range actions {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, local.New(), "n", leader.FIFO())
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errStop) })
				_, _ = n.RunIfLeader(ctx, "a", action)
				ctx, cancelToo := context.WithTimeout(t.Context(), time.Second)
				defer cancelToo()
				_, _ = n.RunIfLeader(ctx, "a", action)
				wantCounted(t, n, 0, 0)
				ctx, cancel = context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errStop) })
				_, _ = n.RunIfLeader(ctx, "a", func(ctx context.Context) error { <-ctx.Done(); return errAction })
				wantCounted(t, n, 0, 1)
			})
		})
	}
}

// skewed is a store whose clock is ahead of ours.
type skewed struct {
	recording
	ahead time.Duration
}

func (d skewed) GetRecords(ctx context.Context, prefix string) ([]backend.Record, time.Time, error) {
	list, now, err := d.recording.GetRecords(ctx, prefix)
	return list, now.Add(d.ahead), err
}

func TestMembership_CountsByTheStoresClock(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := guest(t, local.New(), "n", leader.HighestID())
				n.Strategic = strategicOn(t, skewed{recording{n.d}, ahead}, leader.HighestID(), leader.WithNodeID("n"))
				began := time.Now()
				n.enroll(t)
				time.Sleep(time.Minute)
				if err := n.Campaign(t.Context(), "a", works(time.Second)); err != nil {
					t.Fatal(err)
				}
				ended := time.Now()
				wantCounted(t, n, 1, 0)
				c := candidateOf(t, n.d.store, "n")
				wantAt(t, "registered", c.Registered.Sub(began), ahead, 0)
				wantAt(t, "finished", c.LastFinish.Sub(ended), ahead, 0)

				other := guest(t, n.d.store, "m", leader.HighestID())
				other.Strategic = strategicOn(t, skewed{recording{other.d}, ahead}, leader.HighestID())
				e, err := other.Election(t.Context(), "a")
				if err != nil || len(e.Eliminated) != 0 { // the only one leads also while it sits out
					t.Errorf("got %+v, %v", e, err)
				}
				if _, err := other.Enroll(t.Context(), "a", leader.Candidate{Node: "m"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Until(ended.Add(candidateTTL - time.Millisecond)))
				if e, err = other.Election(t.Context(), "a"); err != nil || e.Winner != "m" {
					t.Errorf("got %+v, %v, want n to sit out", e, err)
				}
				time.Sleep(2 * time.Millisecond)
				if e, err = other.Election(t.Context(), "a"); err != nil || e.Winner != "n" {
					t.Errorf("got %+v, %v, want n to be back", e, err)
				}
			})
		})
	}
}

func TestMembership_LeavesNoGoroutineBehind(t *testing.T) {
	ends := map[string]func(t *testing.T, n *node, m *leader.Membership){
		"left": func(t *testing.T, _ *node, m *leader.Membership) {
			if err := m.Leave(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"replaced": func(t *testing.T, n *node, m *leader.Membership) {
			newNode(t, n.d.store, "n", leader.FIFO())
			time.Sleep(heartbeat + time.Second)
			wantIs(t, m.Err(), leader.ErrReplaced)
		},
		"left in an outage": func(t *testing.T, n *node, m *leader.Membership) {
			n.d.partition()
			if err := m.Leave(t.Context()); err != nil {
				t.Error(err)
			}
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			// A bubble that has a goroutine left fails.
			synctest.Test(t, func(t *testing.T) {
				n := guest(t, local.New(), "n", leader.FIFO())
				m, err := n.Enroll(context.WithoutCancel(t.Context()), "a", leader.Candidate{})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				end(t, n, m)
			})
		})
	}
}

func TestMembership_ANewerEnrolmentOfTheNodeTakesTheSeatOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.New()
		older := newNode(t, store, "n", leader.FIFO())
		registered := time.Now()
		for range 3 {
			older.run(t)
			time.Sleep(heartbeat)
		}
		_, _ = older.RunIfLeader(t.Context(), "a", func(context.Context) error { return errAction })
		wantCounted(t, older, older.counted(t), 1)
		before := candidateOf(t, store, "n")
		newer := newNode(t, store, "n", leader.FIFO())
		after := candidateOf(t, store, "n")
		if before.Successes == 0 || after.Successes != before.Successes || after.Failures != 1 ||
			!after.Registered.Equal(registered) || !after.LastOK.Equal(before.LastOK) || !after.LastStart.Equal(before.LastStart) {
			t.Errorf("got %+v after %+v, want the same", after, before)
		}
		if list := recordsOf(t, store, seats); len(list) != 1 {
			t.Errorf("%d seats of one node", len(list))
		}
		time.Sleep(heartbeat + time.Millisecond)
		wantIs(t, older.member.Err(), leader.ErrReplaced)
		requests := older.d.count()
		seat := seatText(t, store)
		time.Sleep(10 * time.Minute)
		if n := older.d.count() - requests; n != 0 {
			t.Errorf("%d requests of the older enrolment after it was replaced", n)
		}
		if got := seatText(t, store); got != seat {
			t.Errorf("the seat became %s, was %s", got, seat)
		}
		if err := newer.member.Err(); err != nil {
			t.Errorf("the newer enrolment ended: %v", err)
		}
		if err := older.member.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		if got := newer.run(t); got != 0 {
			t.Errorf("got %v on the newer, want a run", got)
		}
		if got := older.run(t); got != leader.NotPreferred {
			t.Errorf("got %v on the older, want not preferred", got)
		}
	})
}

// counted is how many successes the store has for a node "n".
func (n *node) counted(t testing.TB) int64 {
	t.Helper()
	time.Sleep(heartbeat + time.Second)
	return candidateOf(t, n.d.store, "n").Successes
}

// seatText is the record of the only seat.
func seatText(t testing.TB, store *local.Backend) string {
	t.Helper()
	list := recordsOf(t, store, seats)
	if len(list) != 1 {
		t.Fatalf("%d seats, want 1", len(list))
	}
	return string(list[0].Value)
}

func TestMembership_Leave_OfAnOlderEnrolmentLeavesTheNewerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.New()
		older := newNode(t, store, "n", leader.FIFO())
		newer := newNode(t, store, "n", leader.FIFO())
		if err := older.member.Leave(t.Context()); err != nil { // before it could know
			t.Error(err)
		}
		if list := recordsOf(t, store, seats); len(list) != 1 {
			t.Errorf("%d seats, want that of the newer enrolment", len(list))
		}
		time.Sleep(time.Minute)
		if err := newer.member.Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestMembership_EnrollingAgainOnOneElectorLosesNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, local.New(), "n", leader.FIFO())
		time.Sleep(heartbeat + time.Second)
		n.run(t) // counted with the next heartbeat, which does not come
		_, err := n.RunIfLeader(t.Context(), "a", func(context.Context) error {
			n.enroll(t)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		wantCounted(t, n, 2, 0)
	})
}

func TestMembership_LargestMetadataFitsIntoItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := make(map[string]string)
		for i := range 16 {
			m[fmt.Sprintf("%02d%s", i, strings.Repeat("<", 62))] = strings.Repeat("\x01", 256)
		}
		n := guest(t, local.New(), "n", leader.FIFO())
		if _, err := n.Enroll(t.Context(), "a", leader.Candidate{Metadata: m}); err != nil {
			wantIs(t, err, leader.ErrInvalidOption)
		}
		for _, r := range recordsOf(t, n.d.store, seats) {
			if len(r.Value) > 16<<10 {
				t.Errorf("a record of %d bytes, the contract allows 16384", len(r.Value))
			}
		}
	})
}

func TestMembership_TwoNamesOfOneElectorAreTwoCandidates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, local.New(), "n", leader.FIFO())
		other, err := n.Enroll(t.Context(), "b", leader.Candidate{})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.member.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		e, err := n.Election(t.Context(), "b")
		if err != nil || !slices.Equal(nodesOf(e.Candidates), []string{"n"}) || other.Err() != nil {
			t.Errorf("got %+v, %v", e, err)
		}
	})
}
