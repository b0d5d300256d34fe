package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // wherever the tests run

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/jobs"
	"github.com/goleader/leader/schedule"
)

func nothing(context.Context) error { return nil }

func newElector(t testing.TB, opts ...leader.Option) leader.Elector {
	t.Helper()
	e, err := leader.New(local.New(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// actions are actions of those names that do nothing.
func actions(names ...string) map[string]leader.Action {
	all := make(map[string]leader.Action)
	for _, name := range names {
		all[name] = nothing
	}
	return all
}

func decode(t testing.TB, text string) (c jobs.Config) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// hourly is a parser that knows one expression.
func hourly(expression string) (schedule.Schedule, error) {
	switch expression {
	case "0 * * * *":
		return schedule.Every(time.Hour), nil
	case "0 0 30 2 *":
		return schedule.Func(func(time.Time) time.Time { return time.Time{} }), nil
	}
	return nil, errors.New("not an expression")
}

func TestNew_MakesTheDeclaredJobs(t *testing.T) {
	c := decode(t, `{
		"service": "shop", "lease": "PT30S", "missed": "runOnce", "failureMode": "skip", "keep": "6h", "timeZone": "UTC",
		"jobs": [
			{"name": "report", "every": "1m", "wait": "10s", "missed": "Skip"},
			{"name": "cleanup", "cron": "0 * * * *", "minLease": "5s", "jitter": "1m", "autoExtend": false, "maxHold": "20s"},
			{"name": "often", "cron": "@every PT5M", "retryFailed": true},
			{"name": "poll", "delay": "10s", "failureMode": "failOpenRun", "drain": "5s"},
			{"name": "old", "every": "1h", "disabled": true}
		]
	}`)
	table, err := jobs.New(newElector(t), c, actions("report", "cleanup", "often", "poll", "old"), jobs.WithCron(hourly))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"shop:report", "shop:cleanup", "shop:often", "shop:poll"}
	if got := table.Names(); !slices.Equal(got, want) {
		t.Errorf("jobs %q, want %q", got, want)
	}
}

func TestNew_Prefix_IsThatOfTheServiceUnlessGiven(t *testing.T) {
	for text, want := range map[string]string{
		`{"service": "shop", "jobs": [{"name": "report", "every": "1m"}]}`:                  "shop:report",
		`{"service": "shop", "prefix": "", "jobs": [{"name": "report", "every": "1m"}]}`:    "report",
		`{"service": "shop", "prefix": "eu/", "jobs": [{"name": "report", "every": "1m"}]}`: "eu/report",
		`{"jobs": [{"name": "report", "every": "1m"}]}`:                                     "jobs.test:report", // this program
	} {
		table, err := jobs.New(newElector(t), decode(t, text), actions("report"))
		if err != nil {
			t.Fatal(err)
		}
		if got := table.Names()[0]; got != want {
			t.Errorf("%s\nis run as %q, want %q", text, got, want)
		}
	}
}

func TestNew_ReportsEverythingWrong_AndNothingTwice(t *testing.T) {
	c := decode(t, `{
		"leese": "30s", "wait": "soon", "missed": "twice", "failureMode": "maybe", "timeZone": "Mars/Base", "keep": "P1Y",
		"jobs": [
			{"name": "none"},
			{"name": "both", "every": "1m", "delay": "1m"},
			{"name": "format", "every": "10x", "lease": "30", "jitter": "P", "missed": "never", "failureMode": "x"},
			{"name": "rules", "every": "-1s", "lease": "0s", "minLease": "5s", "drain": "-1s", "wait": "-1s"},
			{"name": "zone", "cron": "0 * * * *", "timeZone": "Moon/Base"},
			{"name": "zone2", "every": "1h", "timeZone": "UTC"},
			{"name": "zone3", "cron": "@every 1h", "timeZone": "UTC"},
			{"name": "zone4", "cron": "0 * * * *", "timeZone": "Local"},
			{"name": "zone5", "cron": "CRON_TZ=UTC"},
			{"name": "zone6", "cron": "TZ=Asia/Tokyo 0 * * * *"},
			{"name": "fixed", "delay": "1m", "autoExtend": false},
			{"name": "hold", "delay": "1m", "lease": "5s", "maxHold": "1m"},
			{"name": "broken", "delay": "10x", "failureMode": "failOpenRun"},
			{"name": "cron", "cron": "at noon"},
			{"name": "never", "cron": "0 0 30 2 *"},
			{"name": "delay", "delay": "1m", "missed": "skip", "keep": "1h", "retryFailed": true},
			{"name": "open", "every": "1m", "failureMode": "failOpenRun"},
			{"name": "typo", "every": "1m", "jiter": "1s"},
			{"name": "again", "every": "1m"},
			{"name": "again", "every": "1m"},
			{"name": "unknown", "every": "1m"},
			{"every": "1m"}
		]
	}`)
	table, err := jobs.New(newElector(t), c, actions("none", "both", "format", "rules", "zone", "zone2", "zone3",
		"zone4", "zone5", "zone6", "fixed", "hold", "broken", "cron", "never", "delay",
		"open", "typo", "again", "forgotten"), jobs.WithCron(hourly))
	if table != nil || !errors.Is(err, jobs.ErrInvalid) {
		t.Fatalf("a table of %v, and %v; want none, and ErrInvalid", table, err)
	}
	for _, want := range []string{
		`"leese" is no setting`,
		`all jobs: wait: "soon"`,
		`all jobs: missed: "twice" is none of skip, runOnce`,
		`all jobs: failureMode: "maybe" is none of rethrow, skip, failOpenRun`,
		`all jobs: timeZone: unknown time zone Mars/Base`,
		`all jobs: keep: "P1Y"`,
		`job "none": needs one of every, delay and cron, and has 0`,
		`job "both": needs one of every, delay and cron, and has 2`,
		`job "format": every: "10x"`,
		`job "format": lease: "30"`,
		`job "format": jitter: "P"`,
		`job "format": missed: "never"`,
		`job "format": failureMode: "x"`,
		`Every(-1s): must be positive`,
		`WithLeaseTime(0s): must be positive`,
		`WithMinLease(5s): must not be above the lease time`,
		`WithDrain(-1s): must not be negative`,
		`WithWaitTime(-1s): must not be negative`,
		`job "zone": timeZone: unknown time zone Moon/Base`,
		`job "zone2": timeZone has a meaning with times of day alone`,
		`job "zone3": timeZone has a meaning with times of day alone`,
		`job "zone4": timeZone: "Local" is another one on each node`,
		`job "zone5": cron "CRON_TZ=UTC": a zone is given by timeZone`,
		`job "zone6": cron "TZ=Asia/Tokyo 0 * * * *": a zone is given by timeZone`,
		`job "fixed": autoExtend: a job with a delay`,
		`job "hold": maxHold: 1m0s ends the pause of a delay of 1m0s`,
		`job "broken":`,
		`job "cron": cron "at noon": not an expression`,
		`job "never": cron "0 0 30 2 *" is never due`,
		`WithMissed(Skip): has no meaning with a Delay`,
		`WithKeep(1h0m0s): has no meaning with a Delay`,
		`WithRetryFailedRun: has a meaning with a run key alone`,
		`WithFailureMode(FailOpenRun)`,
		`job "typo": "jiter" is no setting`,
		`job "again" comes twice`,
		`job "unknown" has no action`,
		`job 22 has no name`,
		`action "forgotten" has no job`,
	} {
		if n := strings.Count(err.Error(), want); n != 1 {
			t.Errorf("the error says %d times %q", n, want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}

func TestNew_WrongOnTheWhole_IsRefused(t *testing.T) {
	one := decode(t, `{"jobs": [{"name": "report", "every": "1m"}]}`)
	crony := decode(t, `{"jobs": [{"name": "report", "cron": "0 * * * *"}]}`)
	for what, make := range map[string]func() (*jobs.Table, error){
		"no jobs":    func() (*jobs.Table, error) { return jobs.New(newElector(t), jobs.Config{}, nil) },
		"no runner":  func() (*jobs.Table, error) { return jobs.New(nil, one, actions("report")) },
		"no actions": func() (*jobs.Table, error) { return jobs.New(newElector(t), one, nil) },
		"a nil action": func() (*jobs.Table, error) {
			return jobs.New(newElector(t), one, map[string]leader.Action{"report": nil})
		},
		"no cron parser": func() (*jobs.Table, error) { return jobs.New(newElector(t), crony, actions("report")) },
		"a broken option": func() (*jobs.Table, error) {
			return jobs.New(newElector(t), one, actions("report"), jobs.WithSchedule(schedule.WithJitter(-1)))
		},
		"a service with a colon": func() (*jobs.Table, error) { // or "a:b" of "c" and "b" of "c:a" would be one
			c := one
			c.Service = "shop:eu"
			return jobs.New(newElector(t), c, actions("report"))
		},
		"a long prefix": func() (*jobs.Table, error) {
			c := one
			c.Prefix = new(strings.Repeat("x", 255))
			return jobs.New(newElector(t), c, actions("report"))
		},
	} {
		if table, err := make(); table != nil || !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("%s: %v, %v; want ErrInvalid", what, table, err)
		}
	}
}

func TestTable_Run_TimesOfDay_AreInUTCUnlessSaid(t *testing.T) {
	atThree := func(string) (schedule.Schedule, error) {
		return schedule.Func(func(t time.Time) time.Time {
			fire := time.Date(t.Year(), t.Month(), t.Day(), 3, 0, 0, 0, t.Location())
			if !fire.After(t) {
				fire = fire.AddDate(0, 0, 1)
			}
			return fire
		}), nil
	}
	for text, want := range map[string]int{
		`{"jobs": [{"name": "report", "cron": "*"}]}`:                                                        3,
		`{"timeZone": "Asia/Tokyo", "jobs": [{"name": "report", "cron": "*"}]}`:                              18,
		`{"timeZone": "Asia/Tokyo", "jobs": [{"name": "report", "cron": "*", "timeZone": "Europe/Berlin"}]}`: 2,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			report := func(ctx context.Context) error {
				defer stop()
				if fire, _ := schedule.FireTime(ctx); fire.UTC().Hour() != want {
					t.Errorf("%s\nis due at %v, want hour %d in UTC", text, fire.UTC(), want)
				}
				return nil
			}
			table, err := jobs.New(newElector(t), decode(t, text), map[string]leader.Action{"report": report}, jobs.WithCron(atThree))
			if err != nil {
				t.Fatal(err)
			}
			if err := table.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTable_Run_RunsAllJobsUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		runs := make(map[string]int)
		count := func(ctx context.Context) error {
			l, _ := leader.LeaseFrom(ctx)
			mu.Lock()
			defer mu.Unlock()
			runs[l.Info().Name]++
			return nil
		}
		c := decode(t, `{"prefix": "", "lease": "30s", "jobs": [
			{"name": "report", "every": "1m"}, {"name": "cleanup", "cron": "0 * * * *"}, {"name": "poll", "delay": "10s"},
			{"name": "old", "every": "1s", "disabled": true}
		]}`)
		table, err := jobs.New(newElector(t), c, map[string]leader.Action{
			"report": count, "cleanup": count, "poll": count, "old": count,
		}, jobs.WithCron(hourly), jobs.WithSchedule(schedule.WithLogger(slog.New(slog.DiscardHandler))))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour+time.Second)
		defer cancel()
		if err := table.Run(ctx); err != nil {
			t.Error(err)
		}
		if runs["report"] != 120 || runs["cleanup"] != 2 || runs["poll"] < 700 || runs["old"] != 0 || len(runs) != 3 {
			t.Errorf("runs %v in two hours, want 120 reports, 2 cleanups and about 720 polls", runs)
		}
	})
}

func TestTable_Run_WithoutJobs_WaitsForTheEndOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := decode(t, `{"jobs": [{"name": "report", "every": "1m", "disabled": true}]}`)
		table, err := jobs.New(newElector(t), c, actions("report"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		if err := table.Run(ctx); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %v, want nil at the end of the context", err, time.Since(began))
		}
	})
}

func TestTable_Run_ABrokenSchedule_EndsAllJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		parse := func(string) (schedule.Schedule, error) {
			return schedule.Func(func(t time.Time) time.Time {
				if calls++; calls > 4 {
					return t
				}
				return schedule.Every(time.Minute).Next(t)
			}), nil
		}
		c := decode(t, `{"jobs": [{"name": "report", "every": "1h"}, {"name": "broken", "cron": "*"}]}`)
		table, err := jobs.New(newElector(t), c, actions("report", "broken"), jobs.WithCron(parse))
		if err != nil {
			t.Fatal(err)
		}
		if err := table.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "broken") {
			t.Errorf("%v, want the broken schedule", err)
		}
	})
}

func TestConfig_JSON_RefusesWhatIsNoText(t *testing.T) {
	var c jobs.Config
	err := json.Unmarshal([]byte(`{"jobs": [{"name": "report", "every": 60}]}`), &c)
	if err == nil || !strings.Contains(err.Error(), "every") {
		t.Errorf("%v, want an error that names the setting", err)
	}
}

func TestConfig_JSON_IsWhatItWasWritten(t *testing.T) {
	c := decode(t, `{"prefix": "", "lease": "30s", "jobs": [{"name": "report", "every": "1m", "autoExtend": false}]}`)
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"prefix":"","lease":"30s","jobs":[{"name":"report","every":"1m","autoExtend":false}]}`
	if string(text) != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
}
