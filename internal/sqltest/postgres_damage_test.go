package sqltest

import (
	"errors"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
)

// harms are what a stranger may do to a lease, and how its holder loses it by that: a row that says so is found by the
// next renewal, and a table that cannot be asked costs the lease when it ends.
var harms = map[string]struct {
	do   []string
	lost error
}{
	"deleted row":     {[]string{"DELETE FROM leader_leases"}, leader.ErrTakenOver},
	"truncated table": {[]string{"TRUNCATE leader_leases"}, leader.ErrTakenOver},
	"edited token":    {[]string{"UPDATE leader_leases SET token = 'another'"}, leader.ErrTakenOver},
	"edited end":      {[]string{"UPDATE leader_leases SET until = 0"}, leader.ErrTakenOver},
	"edited fence":    {[]string{"UPDATE leader_leases SET fence = fence + 1"}, leader.ErrTakenOver},
	"newer format":    {[]string{"UPDATE leader_leases SET format = 2"}, leader.ErrExpired},
	"dropped table":   {[]string{"DROP TABLE leader_leases"}, leader.ErrExpired},
	"another table": {
		[]string{"DROP TABLE leader_leases", "CREATE TABLE leader_leases (name text)"}, leader.ErrExpired,
	},
}

func TestPostgreSQL_AHarmedRow_CostsTheLeaseInTime(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second
	asideForEachPostgres(t, func(t *testing.T, d *database) {
		for name, harm := range harms {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b, db := d.open(t, d.newSchema(t))
				l := lead(t, elector(t, b, leader.WithLeaseTime(lease)), "job")
				for _, statement := range harm.do {
					execute(t, db, statement)
				}
				harmed := time.Now()
				if err := lost(t, l); !errors.Is(err, harm.lost) {
					t.Errorf("lost: %v, want %v", err, harm.lost)
				}
				if took := time.Since(harmed); took > lease+slack {
					t.Errorf("lost after %v", took)
				}
				execute(t, db, "DROP TABLE IF EXISTS leader_leases")
				if err := b.Migrate(t.Context()); err != nil {
					t.Fatal(err)
				}
				if next := lead(t, elector(t, b), "job"); next.Info().Fence <= l.Info().Fence {
					t.Errorf("fence %d follows %d", next.Info().Fence, l.Info().Fence)
				}
			})
		}
	})
}

func TestPostgreSQL_AStolenLease_IsNoticedWithinOneRenewal(t *testing.T) {
	t.Parallel()
	const lease = 12 * time.Second // renewed after a third of it
	asideForEachPostgres(t, func(t *testing.T, d *database) {
		schema := d.newSchema(t)
		b, _ := d.open(t, schema)
		thief, _ := d.open(t, schema)
		l := lead(t, elector(t, b, leader.WithLeaseTime(lease)), "job")
		if err := thief.Break(t.Context(), l.Info().Key, l.Info().Fence); err != nil {
			t.Fatal(err)
		}
		stolen := win(t, thief, request(l.Info().Key, long))
		began := time.Now()
		if err := lost(t, l); !errors.Is(err, leader.ErrTakenOver) {
			t.Errorf("lost: %v", err)
		}
		if took := time.Since(began); took > lease/3+slack {
			t.Errorf("noticed after %v, of a lease of %v", took, lease)
		}
		if h := inspect(t, b, l.Info().Key); h.Fence != stolen.Fence() || stolen.Fence() <= l.Info().Fence {
			t.Errorf("fence %d follows %d, and is %d in the table", stolen.Fence(), l.Info().Fence, h.Fence)
		}
	})
}

// What the table held is forgotten with it; the server's clock keeps fences growing.
func TestPostgreSQL_Fences_GrowAcrossALostTable(t *testing.T) {
	d := postgres(t, "pgx")
	b, db := d.open(t, d.newSchema(t))
	var last uint64
	for i := range 50 {
		l := win(t, b, request("job", long))
		if l.Fence() <= last {
			t.Fatalf("fence %d follows %d", l.Fence(), last)
		}
		last = l.Fence()
		if i%10 > 0 {
			execute(t, db, "TRUNCATE leader_leases")
			continue
		}
		execute(t, db, "DROP TABLE leader_leases")
		if err := b.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A table that is created by whoever misses it is created for a leader too, who then finds that its row is gone.
func TestPostgreSQL_CreateTable_MendsADroppedTable(t *testing.T) {
	forEachPostgres(t, func(t *testing.T, d *database) {
		db := d.connect(t, d.server.Addr(), d.newSchema(t))
		b := d.on(t, db, &sqlleader.Options{CreateTable: true})
		l := win(t, b, request("job", long))
		execute(t, db, "DROP TABLE leader_leases, leader_leases_records")
		if err := l.Renew(t.Context(), long); !errors.Is(err, backend.ErrLost) {
			t.Errorf("Renew: %v", err)
		}
		if next := win(t, b, request("job", long)); next.Fence() <= l.Fence() {
			t.Errorf("fence %d follows %d", next.Fence(), l.Fence())
		}
	})
}
