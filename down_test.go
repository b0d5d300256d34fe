package leader_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

func TestWait_AStoreThatGoesDownMeanwhileEndsItWithinOneAttempt(t *testing.T) {
	rows := map[string]func(d *driver) backend.Driver{
		"polling": func(d *driver) backend.Driver { return d },
		"looking first": func(d *driver) backend.Driver {
			d.limits.LookFirst = true
			return d
		},
		"waiting for hints": func(d *driver) backend.Driver { return hinting{d, noHints} },
		"asking what to wait for": func(d *driver) backend.Driver {
			return blind{hinting{d, noHints}}
		},
	}
	for name, open := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				occupy(t, d.store, "a", time.Hour)
				d.on(func(r request) answer {
					if r.at < 8*time.Second {
						return nil
					}
					return hangs
				})
				const wait = 10 * time.Second
				_, err := electorOn(t, open(d)).RunIfLeader(t.Context(), "a", nothing, leader.WithWaitTime(wait))
				wantIs(t, err, leader.ErrUnavailable)
				if took := time.Since(d.began); took > wait+attemptBound+100*time.Millisecond {
					t.Errorf("took %v, want at most the wait of %v and one attempt", took, wait)
				}
				time.Sleep(2 * lease) // until nobody cleans up any more
			})
		})
	}
}
