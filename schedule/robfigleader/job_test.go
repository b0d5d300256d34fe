package robfigleader_test

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // for the test of locations, wherever it runs

	"github.com/robfig/cron/v3"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/schedule"
	"github.com/goleader/leader/schedule/robfigleader"
)

var silent = schedule.WithLogger(slog.New(slog.DiscardHandler))

func newElector(t testing.TB, store *local.Backend) leader.Elector {
	t.Helper()
	e, err := leader.New(store)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func parse(t testing.TB, spec string) cron.Schedule {
	t.Helper()
	when, err := cron.ParseStandard(spec)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

// newJob is a job of a scheduler with that location.
func newJob(
	t *testing.T, r leader.Runner, in *time.Location, spec string, action leader.Action, opts ...schedule.Option,
) cron.Job {
	t.Helper()
	c := cron.New(cron.WithLocation(in))
	j, err := robfigleader.Job(t.Context(), c, r, "job", parse(t, spec), action, append(opts, silent)...)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestJob_RunsUnderTheLease_OnceForItsFireTime(t *testing.T) {
	store := local.New()
	var fires []time.Time
	for range 3 {
		newJob(t, newElector(t, store), time.UTC, "@yearly", func(ctx context.Context) error {
			if l, trusted := leader.LeaseFrom(ctx); !trusted || l.Info().Name != "job" {
				t.Error("no trusted lease of the job in its context")
			}
			fire, _ := schedule.FireTime(ctx)
			fires = append(fires, fire)
			return nil
		}).Run()
	}
	want := time.Date(time.Now().UTC().Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	if !slices.EqualFunc(fires, []time.Time{want}, time.Time.Equal) {
		t.Errorf("ran for %v, want once for %v", fires, want)
	}
}

func TestJob_TimesOfDay_AreThoseOfTheScheduler(t *testing.T) {
	calcutta, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec string
		in   *time.Location
	}{{"0 3 * * *", calcutta}, {"0 3 * * *", time.UTC}, {"CRON_TZ=Asia/Kolkata 0 3 * * *", time.UTC}} {
		newJob(t, newElector(t, local.New()), c.in, c.spec, func(ctx context.Context) error {
			fire, _ := schedule.FireTime(ctx)
			if c.spec[0] != '0' {
				c.in = calcutta
			}
			if at := fire.In(c.in).Format("15:04"); at != "03:00" {
				t.Errorf("%q in %v is run for %v", c.spec, c.in, at)
			}
			return nil
		}).Run()
	}
}

func TestJob_TheHourThatComesTwice_IsRunOnce(t *testing.T) {
	place, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		in   *time.Location
		spec string
		want int
	}{
		"a time of day":                {place, "30 1 * * *", 3},
		"a time of day of its own":     {time.UTC, "CRON_TZ=America/New_York 30 1 * * *", 3},
		"a time of each hour":          {place, "30 * * * *", 72},
		"a time of day without a zone": {time.UTC, "30 1 * * *", 3},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Virtual time begins in 2000; daylight saving ended on October 29th.
				time.Sleep(time.Until(time.Date(2000, 10, 28, 12, 0, 0, 0, time.UTC)))
				n := 0
				scheduler := cron.New(cron.WithLocation(c.in))
				when := parse(t, c.spec)
				job, err := robfigleader.Job(t.Context(), scheduler, newElector(t, local.New()), "job", when,
					func(context.Context) error { n++; return nil }, silent)
				if err != nil {
					t.Fatal(err)
				}
				scheduler.Schedule(when, job)
				scheduler.Start()
				time.Sleep(72*time.Hour + time.Minute)
				<-scheduler.Stop().Done()
				if n != c.want {
					t.Errorf("%d runs in three days, want %d", n, c.want)
				}
			})
		})
	}
}

func TestJob_AConstantDelay_HasTheFireTimesOfAPeriod(t *testing.T) {
	newJob(t, newElector(t, local.New()), time.UTC, "@every 7m", func(ctx context.Context) error {
		if fire, _ := schedule.FireTime(ctx); !fire.Equal(fire.Truncate(7*time.Minute)) || time.Since(fire) > 8*time.Minute {
			t.Errorf("run for %v, want a multiple of seven minutes", fire)
		}
		return nil
	}).Run()
}

func TestJob_ReportsWhatBecameOfIt(t *testing.T) {
	failed := errors.New("no paper")
	var ticks []schedule.Tick
	report := schedule.WithReport(func(_ context.Context, tick schedule.Tick) { ticks = append(ticks, tick) })
	j := newJob(t, newElector(t, local.New()), time.UTC, "@yearly", func(context.Context) error { return failed }, report)
	j.Run()
	j.Run()
	if len(ticks) != 2 || !errors.Is(ticks[0].Result.Err, failed) || ticks[1].Result.Reason != leader.AlreadyRan {
		t.Errorf("%+v; want a failure, and a fire time that was run", ticks)
	}
}

func TestJob_APanic_IsLeftToTheChain(t *testing.T) {
	store := local.New()
	j := newJob(t, newElector(t, store), time.UTC, "@yearly", func(context.Context) error { panic("no paper") })
	cron.NewChain(cron.Recover(cron.PrintfLogger(log.New(io.Discard, "", 0)))).Then(j).Run()
	if s, err := newElector(t, store).State(t.Context(), "job"); err != nil || s.Node != "" {
		t.Errorf("after a panic %q leads, %v; want nobody", s.Node, err)
	}
}

func TestJob_AfterItsContext_DoesNotRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := false
	action := func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		if ended {
			t.Error("ran again")
		}
		ended = true
		return nil
	}
	j, err := robfigleader.Job(ctx, cron.New(), newElector(t, local.New()), "job", parse(t, "@every 1s"), action, silent)
	if err != nil {
		t.Fatal(err)
	}
	j.Run() // returns, as the context of the action ended with ctx
	time.Sleep(1100 * time.Millisecond)
	j.Run()
	if !ended {
		t.Error("did not run at all")
	}
}

func TestWrapper_RunsEachJobInPlaceOfTheAction(t *testing.T) {
	c := cron.New()
	w, err := robfigleader.Wrapper(t.Context(), c, newElector(t, local.New()), "job", parse(t, "@yearly"), silent)
	if err != nil {
		t.Fatal(err)
	}
	one, other := 0, 0
	first := cron.NewChain(w).Then(cron.FuncJob(func() { one++ }))
	w(cron.FuncJob(func() { other++ })) // wrapping another does not change the first
	first.Run()
	first.Run()
	if one != 1 || other != 0 {
		t.Errorf("%d runs of the job, %d of another; want 1 and 0", one, other)
	}
}

func TestJob_RefusesWhatCannotWork(t *testing.T) {
	c, e := cron.New(), newElector(t, local.New())
	for what, err := range map[string]error{
		"a name":     second(robfigleader.Job(t.Context(), c, e, "", parse(t, "@hourly"), nothing)),
		"a schedule": second(robfigleader.Job(t.Context(), c, e, "job", nil, nothing)),
		"fire times": second(robfigleader.Job(t.Context(), c, e, "job", schedule.Delay(time.Minute), nothing)),
		"an action":  second(robfigleader.Job(t.Context(), c, e, "job", parse(t, "@hourly"), nil)),
		"a runner":   second(robfigleader.Wrapper(t.Context(), c, nil, "job", parse(t, "@hourly"))),
	} {
		if !errors.Is(err, leader.ErrInvalidOption) && !errors.Is(err, leader.ErrInvalidName) {
			t.Errorf("without %s: %v, want it refused", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func nothing(context.Context) error { return nil }
