package promleader_test

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/goleader/leader/metrics/promleader"
)

func TestCollector_HasTheFiguresUnderTheirOtherNamesToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := register(t, &promleader.Options{AOPNames: true})
		aDay(t, c.Hooks())
		got := scrape(t, r)
		if own := got["leader_leases_acquired_total{name=job}"]; own != 4 {
			t.Errorf("beside them, %v leases were acquired, want 4", own)
		}
		took := got["leader_aop_execution_duration_seconds_sum{lock_name=job}"]
		if own := got["leader_run_duration_seconds_sum{name=job}"]; took != own || took == 0 {
			t.Errorf("runs took %v s, and %v s by the other name", own, took)
		}
		maps.DeleteFunc(got, func(name string, _ float64) bool {
			return !strings.HasPrefix(name, "leader_aop_") || strings.Contains(name, "_sum{")
		})
		check(t, got, map[string]float64{
			"leader_aop_attempts_total{lock_name=job}":                                  8,
			"leader_aop_acquired_total{lock_name=job}":                                  4,
			"leader_aop_acquired_total{lock_name=by hand}":                              1,
			"leader_aop_active{lock_name=by hand}":                                      1,
			"leader_aop_acquire_duration_seconds_count{lock_name=job}":                  4,
			"leader_aop_execution_duration_seconds_count{lock_name=job}":                4,
			"leader_aop_lock_not_acquired_total{lock_name=job,reason=CONTENTION}":       1,
			"leader_aop_lock_not_acquired_total{lock_name=job,reason=BACKEND_ERROR}":    2,
			"leader_aop_lock_not_acquired_total{lock_name=job,reason=FAIL_OPEN_FORCED}": 1,
			"leader_aop_task_failed_total{exception=errorString,lock_name=job}":         1,
		})
	})
}

func TestCollector_HasNoOtherNamesUnlessAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := register(t, nil)
		aDay(t, c.Hooks())
		for name := range scrape(t, r) {
			if strings.HasPrefix(name, "leader_aop_") {
				t.Errorf("it has %s", name)
			}
		}
	})
}
