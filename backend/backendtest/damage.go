package backendtest

import (
	"errors"

	"github.com/goleader/leader/backend"
)

func damageCases() []testCase {
	return []testCase{
		{
			name:  "Damage_GarbledIsReported",
			rule:  ruleFormat,
			says:  "a record that cannot be read is Misconfigured and is not overwritten",
			needs: needCorrupt,
			run:   isReported(Garbled),
		},
		{
			name:  "Damage_WrongTypeIsReported",
			rule:  ruleFormat,
			says:  "something of another type in a record's place is Misconfigured and is not overwritten",
			needs: needCorrupt,
			run:   isReported(WrongType),
		},
		{
			name:  "Damage_NewerMajorIsReported",
			rule:  ruleFormat,
			says:  "a record of a newer major version is Misconfigured and is not overwritten",
			needs: needCorrupt,
			run:   isReported(NewerMajor),
		},
	}
}

// isReported returns a case that harms a key that was never taken, one that is free, one that is kept and one that is
// held, and finds each harmed whatever is called.
func isReported(how Damage) func(t *caseT) {
	return func(t *caseT) {
		a, b := t.pair()
		states := map[string]func() *grant{
			"never taken": func() *grant { return nil },
			"free": func() *grant {
				g := t.win(a, t.request("free", t.long()))
				t.release(g, 0)
				return &g
			},
			"kept": func() *grant {
				g := t.win(a, t.request("kept", t.long()))
				t.release(g, t.long())
				return &g
			},
			"held": func() *grant {
				g := t.win(a, t.request("held", t.long()))
				return &g
			},
		}
		for key, reach := range states {
			g := reach()
			t.cfg.Corrupt(t, key, how)
			t.reported(a, b, key)
			if g == nil {
				continue
			}
			if err := g.Renew(t.Context(), t.long()); err == nil {
				t.Errorf("Renew of a %s key that is %v succeeded", key, how)
			}
			if err := g.Release(t.Context(), 0); err == nil && key == "held" {
				t.Errorf("Release of a %s key that is %v succeeded", key, how)
			}
			t.reported(a, b, key)
		}
	}
}

// reported checks that whoever reads the record is told what is the matter with it, and that nobody overwrites it.
func (t *caseT) reported(a, b backend.Driver, key string) {
	t.Helper()
	for _, d := range []backend.Driver{a, b, a} {
		_, err := t.try(d, t.request(key, t.long()))
		t.misconfigured("TryAcquire", key, err)
		_, err = d.Inspect(t.Context(), key)
		t.misconfigured("Inspect", key, err)
		if err := d.Abandon(t.Context(), t.request(key, t.long())); err != nil { // nothing to do is an answer, too
			t.misconfigured("Abandon", key, err)
		}
	}
}

func (t *caseT) misconfigured(call, state string, err error) {
	t.Helper()
	if backend.KindOf(err) != backend.Misconfigured || errors.Is(err, backend.ErrHeld) || errors.Is(err, backend.ErrLost) {
		t.Fatalf("%s of a key that was %s and is harmed: %v, of kind %v, want an error of kind Misconfigured",
			call, state, orSuccess(err), backend.KindOf(err))
	}
}
