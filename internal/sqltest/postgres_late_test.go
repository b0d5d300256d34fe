package sqltest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/sqlleader"
)

// late is an attempt whose statement is held back on its way to the server, and whose caller has given up.
type late struct {
	trap   *netfault.Trap
	result <-chan error // nil if the attempt opened a term
}

// delayed makes an attempt whose statement with the token is held back.
func delayed(t testing.TB, proxy *netfault.Proxy, token string, attempt func(ctx context.Context) error) late {
	t.Helper()
	trap := proxy.HoldRequest(func(request []byte) bool { return bytes.Contains(request, []byte(token)) })
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- attempt(ctx) }()
	watchdog, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := trap.Wait(watchdog); err != nil {
		t.Fatal(err)
	}
	cancel()
	return late{trap, result}
}

// arrives lets the statement go on, and returns when the server has executed it.
func (l late) arrives(t testing.TB, d *database) {
	t.Helper()
	if err := l.trap.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, "the attempt returns", l.result); err == nil {
		t.Error("the late attempt opened a term")
	}
	eventually(t, "the server has done with it", func() bool {
		return queryOne[int](t, d.admin, `SELECT count(*) FROM pg_stat_activity
			WHERE state = 'active' AND pid <> pg_backend_pid()`) == 0
	})
}

func TestPostgreSQL_Abandon_StopsAnAttemptThatArrivesLater(t *testing.T) {
	forEachPostgres(t, func(t *testing.T, d *database) {
		schema := d.newSchema(t)
		b, _, proxy := d.behind(t, schema)
		other, _ := d.open(t, schema)
		for _, key := range []string{"fresh", "used"} {
			if key == "used" {
				if err := win(t, other, request(key, long)).Release(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
			}
			req := request(key, long)
			attempt := delayed(t, proxy, req.Token, func(ctx context.Context) error {
				_, err := b.TryAcquire(ctx, req)
				return err
			})
			if err := other.Abandon(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			// Others give up as well, and a later one gets the key.
			for range 60 {
				if err := other.Abandon(t.Context(), request(key, long)); err != nil {
					t.Fatal(err)
				}
			}
			if err := win(t, other, request(key, long)).Release(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			attempt.arrives(t, d)
			if h := inspect(t, other, key); !h.Free() {
				t.Errorf("the late attempt opened a term: %+v", h)
			}
		}
	})
}

func TestPostgreSQL_Abandon_StopsASlotAttemptThatArrivesLater(t *testing.T) {
	const slots = 3
	forEachPostgres(t, func(t *testing.T, d *database) {
		schema := d.newSchema(t)
		b, _, proxy := d.behind(t, schema)
		other, db := d.open(t, schema)
		for _, group := range []string{"fresh", "used"} {
			if group == "used" {
				fill(t, other, group, slots)
			}
			req := request(group, long)
			attempt := delayed(t, proxy, req.Token, func(ctx context.Context) error {
				_, _, err := b.TryAcquireSlot(ctx, req, slots)
				return err
			})
			for slot := range slots {
				abandoned := req
				abandoned.Key = backend.SlotKey(group, slot)
				if err := other.Abandon(t.Context(), abandoned); err != nil {
					t.Fatal(err)
				}
			}
			attempt.arrives(t, d)
			if n := holding(t, db, req.Token); n != 0 {
				t.Errorf("the late attempt holds %d slots", n)
			}
		}
	})
}

// fill takes every slot of a group once, and releases it.
func fill(t testing.TB, b *sqlleader.Backend, group string, slots int) {
	t.Helper()
	leases := make([]backend.Lease, slots)
	for i := range leases {
		l, _, err := b.TryAcquireSlot(t.Context(), request(group, long), slots)
		if err != nil {
			t.Fatal(err)
		}
		leases[i] = l
	}
	for _, l := range leases {
		if err := l.Release(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// holding is in how many rows a token holds the key.
func holding(t testing.TB, db *sql.DB, token string) int {
	t.Helper()
	return queryOne[int](t, db, "SELECT count(*) FROM leader_leases WHERE token = $1", token)
}

// An attempt is repeated because its answer is late, and takes another slot than the one that it is about to get.
func TestPostgreSQL_TryAcquireSlot_ARepeatThatOvertakesGetsTheOnlySlot(t *testing.T) {
	const slots, rounds = 8, 6
	forEachPostgres(t, func(t *testing.T, d *database) {
		schema := d.newSchema(t)
		b, _, proxy := d.behind(t, schema)
		other, db := d.open(t, schema)
		for round := range rounds {
			group := fmt.Sprint("group-", round)
			if round%2 == 1 {
				fill(t, other, group, slots)
			}
			req := request(group, long)
			attempt := delayed(t, proxy, req.Token, func(ctx context.Context) error {
				_, _, err := b.TryAcquireSlot(context.WithoutCancel(ctx), req, slots)
				if err == nil {
					return errRepeated
				}
				return err
			})
			_, slot, err := other.TryAcquireSlot(t.Context(), req, slots)
			if err != nil {
				t.Fatal(err)
			}
			attempt.arrives(t, d)
			if n := holding(t, db, req.Token); n != 1 {
				t.Errorf("the token holds %d slots", n)
			}
			if got, _, err := b.TryAcquireSlot(t.Context(), req, slots); err != nil {
				t.Errorf("the slot %d is no longer its own: %v, %v", slot, got, err)
			}
		}
	})
}

var errRepeated = errors.New("the attempt got the slot of its repeat")

func TestPostgreSQL_TryAcquireSlot_OverlappingRepeatsGetOneSlot(t *testing.T) {
	const slots, rounds, repeats = 5, 20, 6
	forEachPostgres(t, func(t *testing.T, d *database) {
		schema := d.newSchema(t)
		a, db := d.open(t, schema)
		b, _ := d.open(t, schema)
		for round := range rounds {
			req := request(fmt.Sprint("group-", round%2), long)
			var running sync.WaitGroup
			for i := range repeats {
				running.Go(func() {
					_, _, err := []*sqlleader.Backend{a, b}[i%2].TryAcquireSlot(t.Context(), req, slots)
					if err != nil && !errors.Is(err, backend.ErrHeld) {
						t.Errorf("TryAcquireSlot: %v", err)
					}
				})
			}
			running.Wait()
			if n := holding(t, db, req.Token); n != 1 {
				t.Errorf("the token holds %d slots", n)
			}
			l, _, err := a.TryAcquireSlot(t.Context(), req, slots)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Release(t.Context(), 0); err != nil {
				t.Error(err)
			}
		}
	})
}
