package leader_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

func TestOptions_EveryRefusalNamesTheValueAndTheRule(t *testing.T) {
	long := strings.Repeat("x", 257)
	rows := []struct {
		opt  leader.RunOption
		want []string
	}{
		{leader.WithWaitTime(-time.Second), []string{"WithWaitTime(-1s)", "must not be negative"}},
		{leader.WithLeaseTime(0), []string{"WithLeaseTime(0s)", "must be positive"}},
		{leader.WithLeaseTime(-time.Minute), []string{"WithLeaseTime(-1m0s)", "must be positive"}},
		{leader.WithLeaseTime(9 * time.Second), []string{"WithLeaseTime(9s)", "minimum is 10s"}},
		{leader.WithLeaseTime(2 * time.Hour), []string{"WithLeaseTime(2h0m0s)", "maximum is 1h0m0s"}},
		{leader.WithMinLease(-1), []string{"WithMinLease(-1ns)", "must not be negative"}},
		{leader.WithMinLease(61 * time.Second), []string{"WithMinLease(1m1s)", "must not be above the lease time of 1m0s"}},
		{leader.WithMaxHold(0), []string{"WithMaxHold(0s)", "must be positive"}},
		{leader.WithMaxHold(-1), []string{"WithMaxHold(-1ns)", "must be positive"}},
		{leader.WithFailureMode(7), []string{"WithFailureMode(7)", "must be Rethrow, Skip or FailOpenRun"}},
		{leader.WithMetadata(map[string]string{"": "v"}), []string{"WithMetadata", `key ""`, "1 to 64 bytes"}},
		{leader.WithMetadata(map[string]string{long[:65]: "v"}), []string{"WithMetadata", "1 to 64 bytes"}},
		{leader.WithMetadata(map[string]string{"k\xff": "v"}), []string{"WithMetadata", "UTF-8"}},
		{leader.WithMetadata(map[string]string{"k": long}), []string{"WithMetadata", `"k", 257 bytes`, "at most 256 bytes"}},
		{leader.WithMetadata(map[string]string{"k": "\xff"}), []string{"WithMetadata", "UTF-8"}},
		{leader.WithMetadata(manyKeys(17)), []string{"WithMetadata(17 keys)", "at most 16"}},
	}
	for _, row := range rows {
		t.Run(row.want[0], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver()
				d.limits.MinTTL, d.limits.MaxTTL = 10*time.Second, time.Hour
				_, err := leader.New(d, row.opt)
				wantIs(t, err, leader.ErrInvalidOption)
				wantNames(t, err, row.want...)

				_, err = electorOn(t, d).RunIfLeader(t.Context(), "a", nothing, row.opt)
				wantIs(t, err, leader.ErrInvalidOption)
				wantNames(t, err, row.want...)
				if n := d.count(); n != 0 {
					t.Errorf("%d requests before validation, want none", n)
				}
			})
		})
	}
}

func manyKeys(n int) map[string]string {
	m := make(map[string]string)
	for i := range n {
		m[fmt.Sprint("key ", i)] = "v"
	}
	return m
}

func TestOptions_ThoseOfAnElectorNameTheValueAndTheRule(t *testing.T) {
	rows := []struct {
		opt  leader.Option
		kind error
		want []string
	}{
		{leader.WithSafetyMargin(0), leader.ErrInvalidOption, []string{"WithSafetyMargin(0s)", "positive"}},
		{leader.WithSafetyMargin(-1), leader.ErrInvalidOption, []string{"WithSafetyMargin(-1ns)", "positive"}},
		{leader.WithSafetyMargin(30 * time.Second), leader.ErrInvalidOption, []string{"WithSafetyMargin(30s)", "half of the lease time of 1m0s"}},
		{leader.WithNodeID(""), leader.ErrInvalidName, []string{"node id is empty"}},
		{leader.WithNodeID("a\n"), leader.ErrInvalidName, []string{"node id", `"a\n"`, "control"}},
		{leader.WithNamespace(""), leader.ErrInvalidName, []string{"namespace is empty"}},
		{leader.WithNamespace(strings.Repeat("x", 256)), leader.ErrInvalidName, []string{"namespace", "256 bytes", "255"}},
	}
	for _, row := range rows {
		_, err := leader.New(newDriver(), row.opt)
		wantIs(t, err, row.kind)
		wantNames(t, err, row.want...)
	}
}

func TestOptions_AllViolationsAreReportedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		_, err := leader.New(d, leader.WithLeaseTime(-1), leader.WithWaitTime(-1), leader.WithMinLease(-1), leader.WithMaxHold(-1),
			leader.WithSafetyMargin(time.Hour), leader.WithNodeID(""), leader.WithNamespace("\x00"))
		wantIs(t, err, leader.ErrInvalidOption, leader.ErrInvalidName)
		wantNames(t, err, "WithLeaseTime", "WithWaitTime", "WithMinLease", "WithMaxHold", "WithSafetyMargin", "node id", "namespace")

		_, err = electorOn(t, d).RunIfLeader(t.Context(), "", nothing, leader.WithLeaseTime(-1), leader.WithRequeue())
		wantIs(t, err, leader.ErrInvalidOption, leader.ErrInvalidName)
		wantNames(t, err, "name is empty", "WithLeaseTime", "WithRequeue")
	})
}

func TestOptions_ADefaultLeaseIsMovedInsideTheLimitsOfTheStore(t *testing.T) {
	rows := []struct{ minTTL, maxTTL, want time.Duration }{
		{0, 0, time.Minute}, {0, 10 * time.Second, 10 * time.Second}, {time.Hour, 0, time.Hour}, {time.Second, time.Hour, time.Minute},
	}
	for _, row := range rows {
		synctest.Test(t, func(t *testing.T) {
			d := newDriver()
			d.limits.MinTTL, d.limits.MaxTTL = row.minTTL, row.maxTTL
			if _, err := electorOn(t, d).RunIfLeader(t.Context(), "a", nothing); err != nil {
				t.Fatal(err)
			}
			if got := d.log(acquires)[0].d; got != row.want {
				t.Errorf("asked for %v, want %v", got, row.want)
			}
		})
	}
}

func TestOptions_AMarginHasToFitTheLeaseOfEachCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		e := electorOn(t, d, leader.WithSafetyMargin(10*time.Second))
		_, err := e.RunIfLeader(t.Context(), "a", nothing, leader.WithLeaseTime(20*time.Second))
		wantIs(t, err, leader.ErrInvalidOption)
		wantNames(t, err, "WithSafetyMargin(10s)", "20s")
		if n := d.count(); n != 0 {
			t.Errorf("%d requests before validation, want none", n)
		}
	})
}

func TestOptions_WithoutMeaningForACallAreRefusedThereAndIgnoredAsDefaults(t *testing.T) {
	calls := map[string]func(t *testing.T, e *leader.Single, opts ...leader.RunOption) error{
		"RunIfLeader": func(t *testing.T, e *leader.Single, opts ...leader.RunOption) error {
			_, err := e.RunIfLeader(t.Context(), "a", nothing, opts...)
			return err
		},
		"Acquire": func(t *testing.T, e *leader.Single, opts ...leader.RunOption) error {
			l, err := e.Acquire(t.Context(), "a", opts...)
			if err != nil {
				return err
			}
			return l.Release(t.Context())
		},
		"Campaign": func(t *testing.T, e *leader.Single, opts ...leader.RunOption) error {
			return e.Campaign(t.Context(), "a", func(context.Context) error { return errAction }, opts...)
		},
	}
	options := map[string]leader.RunOption{
		"WithWaitTime": leader.WithWaitTime(time.Second), "WithFailureMode": leader.WithFailureMode(leader.Skip),
		"WithRequeue": leader.WithRequeue(), "WithLeaseTime": leader.WithLeaseTime(time.Second),
		"WithMinLease": leader.WithMinLease(time.Second), "WithMaxHold": leader.WithMaxHold(time.Second),
		"WithMetadata": leader.WithMetadata(nil), "WithAutoExtend": leader.WithAutoExtend(), "WithoutAutoExtend": leader.WithoutAutoExtend(),
	}
	meaningless := map[string]bool{
		"RunIfLeader WithRequeue": true, "Acquire WithFailureMode": true, "Acquire WithRequeue": true,
		"Campaign WithWaitTime": true, "Campaign WithFailureMode": true,
	}
	for callName, call := range calls {
		for option, opt := range options {
			synctest.Test(t, func(t *testing.T) {
				err := call(t, electorOn(t, newDriver()), opt)
				if refused := errors.Is(err, leader.ErrInvalidOption); refused != meaningless[callName+" "+option] {
					t.Errorf("%s with %s: %v", callName, option, err)
				} else if refused {
					wantNames(t, err, option)
				}
				if err := call(t, electorOn(t, newDriver(), opt)); errors.Is(err, leader.ErrInvalidOption) {
					t.Errorf("%s with %s as a default: %v", callName, option, err)
				}
			})
		}
	}
}

func TestOptions_OfACallReplaceTheDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		e := electorOn(t, d, leader.WithLeaseTime(10*time.Second), leader.WithMetadata(map[string]string{"k": "default"}))
		for _, row := range []struct {
			opts     []leader.RunOption
			lease    time.Duration
			metadata string
		}{
			{nil, 10 * time.Second, "default"},
			{[]leader.RunOption{leader.WithLeaseTime(20 * time.Second), nil}, 20 * time.Second, "default"},
			{[]leader.RunOption{leader.WithMetadata(map[string]string{"k": "own"})}, 10 * time.Second, "own"},
			{nil, 10 * time.Second, "default"},
		} {
			l, err := e.Acquire(t.Context(), "a", row.opts...)
			if err != nil {
				t.Fatal(err)
			}
			h := holderOf(t, d.store, "a")
			if h.Remaining != row.lease || !maps.Equal(h.Metadata, map[string]string{"k": row.metadata}) {
				t.Errorf("holder %+v, want %+v", h, row)
			}
			_ = l.Release(t.Context())
		}
	})
}

func TestOptions_WithHooksAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var one, two journal
		e := electorOn(t, newDriver(), leader.WithHooks(recordingHooks(&one)), nil, leader.WithHooks(recordingHooks(&two)))
		if _, err := e.RunIfLeader(t.Context(), "a", nothing); err != nil {
			t.Fatal(err)
		}
		if one.String() != "acquired, released" || two.String() != one.String() {
			t.Errorf("hooks: %s and %s", &one, &two)
		}
	})
}

func TestNew_ReportsADriverThatIsMissing(t *testing.T) {
	if _, err := leader.New(nil); err == nil {
		t.Error("no error")
	}
}

// checked is a driver with bad options of its own.
type checked struct{ *driver }

func (checked) Check() error { return errForeign }

func TestNew_ReportsTheOptionsOfTheDriverTogetherWithItsOwn(t *testing.T) {
	_, err := leader.New(checked{newDriver()}, leader.WithLeaseTime(-1))
	wantIs(t, err, errForeign, leader.ErrInvalidOption)
}

func TestNew_MakesNoRequest(t *testing.T) {
	d := newDriver()
	electorOn(t, d)
	if n := d.count(); n != 0 {
		t.Errorf("%d requests, want none", n)
	}
}

// advised is a driver that has something to say of the store's settings.
type advised struct {
	*driver
	asked *int
}

func (d advised) Advise(context.Context) ([]string, error) {
	*d.asked++
	return []string{"the store forgets"}, nil
}

func TestElector_LogsOnceWhatTheDriverAdvises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWarnings()
		asked := 0
		e := loggingElector(t, advised{newDriver(), &asked}, w)
		for range 3 {
			if _, err := e.RunIfLeader(t.Context(), "a", nothing); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if asked != 1 || w.String() != "the store forgets" {
			t.Errorf("asked %d times, warnings %q", asked, w.String())
		}
	})
}

func TestElector_DoesNotAskForAdviceBeforeTheStoreHasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.onVerb(acquires, fails(errDown))
		asked := 0
		_, err := electorOn(t, advised{d, &asked}).RunIfLeader(t.Context(), "a", nothing)
		wantIs(t, err, errDown)
		synctest.Wait()
		if asked != 0 {
			t.Errorf("asked %d times, want never", asked)
		}
	})
}

var _ backend.Advisor = advised{}
