package sqltest

import (
	"errors"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqlleader"
)

// TestPostgreSQL_WorksInEachModeOfItsDrivers runs every statement in each way in which the drivers send it.
func TestPostgreSQL_WorksInEachModeOfItsDrivers(t *testing.T) {
	modes := map[string][]map[string]string{
		"pgx": {
			{"default_query_exec_mode": "cache_statement"},
			{"default_query_exec_mode": "cache_describe"},
			{"default_query_exec_mode": "describe_exec"},
			{"default_query_exec_mode": "exec"},
			{"default_query_exec_mode": "simple_protocol"},
		},
		"postgres": {{"binary_parameters": "no"}, {"binary_parameters": "yes"}},
	}
	forEachPostgres(t, func(t *testing.T, d *database) {
		for _, mode := range modes[d.driver] {
			for _, value := range mode {
				t.Run(value, func(t *testing.T) {
					everyStatement(t, d.on(t, d.withSettings(t, d.newSchema(t), mode), &sqlleader.Options{CreateTable: true}))
				})
			}
		}
	})
}

func everyStatement(t *testing.T, b *sqlleader.Backend) {
	t.Helper()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	req := request("job", long)
	req.Metadata = map[string]string{"version": `1'2"3`}
	l := win(t, b, req)
	if h := refused(t, b, "job"); h.Metadata["version"] != `1'2"3` || h.Fence != l.Fence() {
		t.Errorf("the holder is %+v", h)
	}
	must("Renew", l.Renew(t.Context(), 2*long))
	must("Release and keep", l.Release(t.Context(), long))
	if h := inspect(t, b, "job"); !h.Kept {
		t.Errorf("not kept: %+v", h)
	}
	must("Break", b.Break(t.Context(), "job", l.Fence()))
	must("Release", win(t, b, request("job", long)).Release(t.Context(), 0))
	must("Abandon", b.Abandon(t.Context(), request("new", long)))
	if _, err := b.TryAcquire(t.Context(), req); err != nil && !errors.Is(err, backend.ErrLost) {
		t.Errorf("TryAcquire: %v", err)
	}
	for range 2 {
		_, _, err := b.TryAcquireSlot(t.Context(), request("group", long), 2)
		must("TryAcquireSlot", err)
	}
	if _, _, err := b.TryAcquireSlot(t.Context(), request("group", long), 2); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("TryAcquireSlot of a full group: %v", err)
	}
	if got := listed(t, b, "group"); len(got) != 2 {
		t.Errorf("List: %q", got)
	}
	binary := []byte{0, 1, 0xff, '\\', '\''}
	version, err := b.PutRecord(t.Context(), backend.Record{Key: "job!run/1", Value: binary, TTL: time.Hour})
	must("PutRecord", err)
	version, err = b.PutRecord(t.Context(), backend.Record{Key: "job!run/1", Value: binary, Version: version})
	must("PutRecord again", err)
	list, _, err := b.GetRecords(t.Context(), "job!run/")
	must("GetRecords", err)
	if len(list) != 1 || string(list[0].Value) != string(binary) || list[0].Version != version {
		t.Errorf("GetRecords: %v", list)
	}
	must("DeleteRecord", b.DeleteRecord(t.Context(), backend.Record{Key: "job!run/1", Version: version}))
	advice(t, b)
}

// A pooler that gives each transaction another connection loses what was prepared.
func TestPostgreSQL_ALostPreparedStatement_IsMisconfigured(t *testing.T) {
	d := postgres(t, "pgx")
	b, db := d.open(t, d.newSchema(t))
	db.SetMaxOpenConns(1)
	inspect(t, b, "job")
	execute(t, db, "DEALLOCATE ALL")
	_, err := b.Inspect(t.Context(), "job")
	wantHint(t, "Inspect", err, backend.Misconfigured, "default_query_exec_mode=exec")
}
