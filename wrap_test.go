package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
)

// order is the argument of a wrapped job.
type order struct {
	Region string
	Tenant string `leader:"customer"`
	Shard  int
	Since  time.Time
	Note   []string
	*origin
}

type origin struct{ Country string }

func newWrapElector(t *testing.T, opts ...leader.Option) *leader.Single {
	t.Helper()
	e, err := leader.New(local.New(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestWrap_RunsUnderItsNameWhereElected(t *testing.T) {
	e := newWrapElector(t)
	var ranAs string
	job, err := leader.Wrap(e, "report", func(ctx context.Context) error {
		l, _ := leader.LeaseFrom(ctx)
		ranAs = l.Info().Name
		return nil
	}, leader.WithRetryFailedRun(), leader.WithRunKey("1", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := job(t.Context()); err != nil || !r.OK() || ranAs != "report" {
		t.Errorf("%v, %v as %q; want elected as report", r, err, ranAs)
	}
	if r, err := job(t.Context()); err != nil || r.Reason != leader.AlreadyRan {
		t.Errorf("again: %v, %v; want the options given to Wrap in force", r, err)
	}
	if r, err := job(t.Context(), leader.WithRunKey("2", time.Hour)); err != nil || !r.OK() {
		t.Errorf("with another key: %v, %v; want the options of the call to win", r, err)
	}
}

func TestWrap_ReportsEverythingWrongAtOnce(t *testing.T) {
	_, err := leader.Wrap(newWrapElector(t), "", nil, leader.WithLeaseTime(-1), leader.WithRetryFailedRun())
	for _, want := range []string{"name is empty", "WithLeaseTime", "WithRetryFailedRun", "action is nil"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if _, err := leader.Wrap(nil, "report", nothing); !errors.Is(err, leader.ErrInvalidOption) {
		t.Errorf("without a runner: %v, want ErrInvalidOption", err)
	}
}

// foreign is a runner that is no elector of this package.
type foreign struct{ leader.Runner }

func TestCheck_SaysWhatRunIfLeaderWouldRefuse(t *testing.T) {
	d := local.New()
	single, err := leader.New(d)
	if err != nil {
		t.Fatal(err)
	}
	group, err := leader.NewGroup(d, 2)
	if err != nil {
		t.Fatal(err)
	}
	strategic, err := leader.NewStrategic(d, leader.FIFO())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []leader.Runner{single, group, strategic, foreign{single}} {
		t.Run(fmt.Sprintf("%T", r), func(t *testing.T) {
			if err := leader.Check(r, "job", leader.WithRunKey("1", time.Hour)); err != nil {
				t.Errorf("what is right: %v", err)
			}
			if err := leader.Check(r, "a\nb"); !errors.Is(err, leader.ErrInvalidName) {
				t.Errorf("a name with a control character: %v, want ErrInvalidName", err)
			}
			if err := leader.Check(r, "job", leader.WithRequeue()); !errors.Is(err, leader.ErrInvalidOption) {
				t.Errorf("an option of Campaign: %v, want ErrInvalidOption", err)
			}
		})
	}
	if err := leader.Check(single, "job", leader.WithLeaseTime(time.Microsecond)); err == nil {
		t.Error("a lease below the backend's minimum is not reported")
	}
	if err := leader.Check(group, "job", leader.WithFailureMode(leader.FailOpenRun)); err == nil {
		t.Error("FailOpenRun for a group is not reported")
	}
}

func TestWrapFor_PutsTheArgumentIntoTheName(t *testing.T) {
	at := time.Date(2026, 11, 29, 16, 0, 0, 0, time.UTC)
	arg := order{Region: "eu-west", Tenant: "acme", Shard: 7, Since: at, origin: &origin{"fr"}}
	for template, want := range map[string]string{
		"process-{region}":            "process-eu-west",
		"process-{Region}":            "process-eu-west",
		"{region}/{customer}/{shard}": "eu-west/acme/7",
		"from {since}":                "from 2026-11-29T16:00:00Z",
		"{country}":                   "fr",
	} {
		checkNameOf(t, template, arg, want)
		checkNameOf(t, template, &arg, want)
	}
	checkNameOf(t, "process-{region}", "eu-west", "process-eu-west")
	checkNameOf(t, "shard {n}", 7, "shard 7")
	checkNameOf(t, "shard {n}", new(uint8(7)), "shard 7")
	checkNameOf(t, "day {day}", at, "day 2026-11-29T16:00:00Z")
	checkNameOf(t, "on {on}", true, "on true")
}

func checkNameOf[T any](t *testing.T, template string, arg T, want string) {
	t.Helper()
	got := ""
	job, err := leader.WrapFor(newWrapElector(t), template, func(ctx context.Context, _ T) error {
		l, _ := leader.LeaseFrom(ctx)
		got = l.Info().Name
		return nil
	})
	if err != nil {
		t.Errorf("%q of %T: %v", template, arg, err)
		return
	}
	if r, err := job(t.Context(), arg); err != nil || !r.OK() || got != want {
		t.Errorf("%q of %+v: %v, %v, ran as %q; want %q", template, arg, r, err, got, want)
	}
}

func TestWrapFor_HandsTheArgumentAndTheOptionsOn(t *testing.T) {
	var got []string
	job, err := leader.WrapFor(newWrapElector(t), "process-{region}", func(_ context.Context, arg order) error {
		got = append(got, arg.Region)
		return nil
	}, leader.WithRunKey("1", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for _, region := range []string{"eu", "us", "eu"} {
		if _, err := job(t.Context(), order{Region: region}); err != nil {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(got) != "[eu us]" {
		t.Errorf("ran for %v, want once for each region", got)
	}
}

func TestWrapFor_RefusesAWrongTemplateAtOnce(t *testing.T) {
	for template, want := range map[string]string{
		"process-{zone}":     "has no such field",
		"process-{tenant}":   "has no such field", // its tag names it
		"process-{origin}":   "has no such field",
		"process-{}":         "has no such field",
		"process-{note}":     "is no text",
		"process":            "no placeholder",
		"{region}{shard}":    "side by side",
		"{region":            "{ without a }",
		"{a{region}}":        "{ without a }",
		"region}":            "} without a {",
		"\n{region}":         "control character",
		"":                   "no placeholder",
		"{zone} and {shelf}": "{shelf}",
	} {
		_, err := leader.WrapFor(newWrapElector(t), template, func(context.Context, order) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, leader.ErrInvalidName) {
			t.Errorf("%q: %v, want an invalid name, as %s", template, err, want)
		}
	}
	if _, err := leader.WrapFor(newWrapElector(t), "{a}-{b}", func(context.Context, string) error { return nil }); err == nil {
		t.Error("two placeholders for a string are not refused")
	}
	if _, err := leader.WrapFor(newWrapElector(t), "{a}", func(context.Context, []string) error { return nil }); err == nil {
		t.Error("a list as the argument is not refused")
	}
	if _, err := leader.WrapFor[order](newWrapElector(t), "{region}", nil); !errors.Is(err, leader.ErrInvalidOption) {
		t.Errorf("without an action: %v, want ErrInvalidOption", err)
	}
}

func TestWrapFor_RefusesAnArgumentWithoutAName_BeforeAnythingRuns(t *testing.T) {
	for template, args := range map[string][]order{
		"process-{region}":    {{}},
		"{country}":           {{}, {origin: &origin{}}},
		"{region}-{customer}": {{Region: "eu-west", Tenant: "acme"}, {Region: "eu", Tenant: ""}},
		"{region}--{shard}":   {{Region: "eu-"}, {Region: "a--b"}},
		"{region}":            {{Region: "a\nb"}, {Region: strings.Repeat("x", 256)}},
	} {
		job, err := leader.WrapFor(newWrapElector(t), template, func(context.Context, order) error {
			t.Errorf("%q: the action ran", template)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, arg := range args {
			if _, err := job(t.Context(), arg); !errors.Is(err, leader.ErrInvalidName) {
				t.Errorf("%q of %+v: %v, want ErrInvalidName", template, arg, err)
			}
		}
	}
}

// printed is an argument that prints itself for people.
type printed struct{ Region string }

func (printed) String() string { return "an order" }

// stamped is an argument with the methods of what it embeds.
type stamped struct {
	time.Time

	Region string
}

func TestWrapFor_AnArgumentThatIsATextAsWell_IsNamedByItsFields(t *testing.T) {
	checkNameOf(t, "process-{region}", printed{"eu"}, "process-eu")
	checkNameOf(t, "process-{region}", &printed{"eu"}, "process-eu")
	checkNameOf(t, "process-{region}", stamped{Region: "eu"}, "process-eu")
	_, err := leader.WrapFor(newWrapElector(t), "process-{regoin}", func(context.Context, printed) error { return nil })
	if !errors.Is(err, leader.ErrInvalidName) {
		t.Errorf("a field that the argument lacks: %v, want ErrInvalidName", err)
	}
}

func TestWrap_KeepsTheOptionsThatItChecked(t *testing.T) {
	opts := []leader.RunOption{leader.WithLeaseTime(time.Minute)}
	wrapped, err := leader.Wrap(newWrapElector(t), "report", nothing, opts...)
	if err != nil {
		t.Fatal(err)
	}
	wrappedFor, err := leader.WrapFor(newWrapElector(t), "{n}", func(context.Context, int) error { return nil }, opts...)
	if err != nil {
		t.Fatal(err)
	}
	opts[0] = leader.WithLeaseTime(-1)
	if _, err := wrapped(t.Context()); err != nil {
		t.Errorf("Wrap: %v, want the options of then", err)
	}
	if _, err := wrappedFor(t.Context(), 1); err != nil {
		t.Errorf("WrapFor: %v, want the options of then", err)
	}
}

func TestWrapFor_RefusesNilPointers(t *testing.T) {
	job, err := leader.WrapFor(newWrapElector(t), "{region}", func(context.Context, *order) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := job(t.Context(), nil); !errors.Is(err, leader.ErrInvalidName) {
		t.Errorf("%v, want ErrInvalidName", err)
	}
}

func ExampleWrapFor() {
	elector, err := leader.New(local.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	type order struct{ Region string }
	process, err := leader.WrapFor(elector, "process-{region}", func(_ context.Context, o order) error {
		fmt.Println("processing", o.Region)
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := process(context.Background(), order{Region: "eu"})
	fmt.Println(result.OK(), err)
	// Output:
	// processing eu
	// true <nil>
}
