package dynamoleader_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/dynamoleader"
)

func ms(t time.Time) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(t.UnixMilli(), 10)}
}

// takeOver attempts until the key can be had, and returns when that was.
func takeOver(t testing.TB, b backend.Driver, key string, ttl time.Duration) time.Time {
	t.Helper()
	eventually(t, key+" can be taken over", func() bool {
		_, err := b.TryAcquire(t.Context(), request(key, ttl))
		if err != nil && !errors.Is(err, backend.ErrHeld) {
			t.Fatal(err)
		}
		return err == nil
	})
	return time.Now()
}

func TestBackend_Expiry_IsThatOfTheHolderNotOfTheAsker(t *testing.T) {
	s := newTable(t)
	a, b := s.open(t), s.open(t)
	const ttl = 2 * brief
	sent := time.Now()
	win(t, a, request("a", ttl))
	if took := takeOver(t, b, "a", brief).Sub(sent); took < ttl {
		t.Errorf("an asker of %v took the key %v after a holder of %v", brief, took, ttl)
	}
	win(t, a, request("b", brief))
	sent = time.Now()
	if took := takeOver(t, b, "b", long).Sub(sent); took > 2*brief+5*time.Second {
		t.Errorf("an asker of %v took the key %v after a holder of %v", long, took, brief)
	}
}

// A caller who never waits takes over as soon as one who does. What the machine stalls meanwhile is not counted.
func TestRunIfLeader_WithoutWaiting_TakesOverADeadHolder(t *testing.T) {
	const (
		ttl    = time.Second
		rhythm = 50 * time.Millisecond
	)
	s := newTable(t)
	dead, alive := s.open(t), s.open(t)
	e, err := leader.New(alive, leader.WithLeaseTime(ttl), leader.WithLogger(quiet()))
	if err != nil {
		t.Fatal(err)
	}
	win(t, dead, request("job", ttl))
	died := time.Now()
	var ran time.Time
	stalls, last := time.Duration(0), died
	for ran.IsZero() {
		if _, err := e.RunIfLeader(t.Context(), "job", func(context.Context) error {
			ran = time.Now()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		stalls += max(0, time.Since(last)-2*rhythm)
		last = time.Now()
		if time.Since(died) > patience {
			t.Fatal("never led")
		}
		time.Sleep(rhythm) // the caller's own
	}
	if took := ran.Sub(died); took < ttl-rhythm || took > ttl+200*time.Millisecond+stalls {
		t.Errorf("led %v after the death of a holder with a lease of %v (%v of stalls)", took, ttl, stalls)
	}
}

// One who looks in vain and then comes back finds the time that has passed counted.
func TestBackend_Expiry_IsRememberedFromCallToCall(t *testing.T) {
	s := newTable(t)
	a, b := s.open(t), s.open(t)
	win(t, a, request("a", brief))
	inspect(t, b, "a")
	time.Sleep(brief + 50*time.Millisecond)
	win(t, b, request("a", long))
}

// What an onlooker saw an hour ago says nothing about a holder who has renewed since.
func TestBackend_IdleForAnHour_RobsNobody(t *testing.T) {
	s := newTable(t)
	a, b := s.open(t), s.open(t)
	lease := win(t, a, request("a", long))
	holder(t, b, "a")
	for _, used := range []bool{false, true} {
		dynamoleader.Idle(b, time.Hour)
		renew(t, lease, long)
		if used { // for something else, so that it does not look first because it is so long ago
			inspect(t, b, "b")
		}
		if h := holder(t, b, "a"); h.Remaining < long-patience {
			t.Errorf("%v remain after an hour of renewals", h.Remaining)
		}
	}
	if h := inspect(t, b, "a"); h.Fence != lease.Fence() {
		t.Errorf("holder %+v", h)
	}
	// A holder who was idle is not robbed of what it renewed in time either.
	dynamoleader.Idle(a, time.Hour)
	renew(t, lease, long)
	holder(t, b, "a")
}

// A newcomer cannot know since when an item has not changed, unless its times say that it is very long.
func TestBackend_FirstSight_WaitsALeaseUnlessTheItemIsOld(t *testing.T) {
	s := newTable(t)
	dead := s.open(t)
	for _, key := range []string{"young", "old"} {
		win(t, dead, request(key, brief))
	}
	s.set(t, "young", "lease", "renewed", ms(time.Now().Add(-2*brief-50*time.Second)))
	s.set(t, "old", "lease", "renewed", ms(time.Now().Add(-2*brief-70*time.Second)))
	newcomer := s.open(t)
	win(t, newcomer, request("old", long))
	sent := time.Now()
	holder(t, newcomer, "young")
	if took := takeOver(t, newcomer, "young", long).Sub(sent); took < brief {
		t.Errorf("taken over %v after the first sight", took)
	}
}

// dated shifts the Date of every answer.
func dated(by time.Duration) func(o *dynamodb.Options) {
	return over(func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(request *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(request)
			if err == nil {
				answer.Header.Set("Date", time.Now().Add(by).UTC().Format(http.TimeFormat))
			}
			return answer, err
		})
	})
}

func TestBackend_DateThatIsAnHourWrong_RobsNobodyAndIsNotRobbed(t *testing.T) {
	s := newTable(t)
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		right, wrong := "right"+off.String(), "wrong"+off.String()
		win(t, s.open(t), request(right, brief))
		if h := holder(t, s.openWith(t, dated(off)), right); h.Remaining <= 0 {
			t.Errorf("holder %+v", h)
		}
		win(t, s.openWith(t, dated(off)), request(wrong, brief))
		sent := time.Now()
		b := s.open(t)
		holder(t, b, wrong)
		if took := takeOver(t, b, wrong, long).Sub(sent); took < brief {
			t.Errorf("a holder with a Date of %v was replaced after %v", off, took)
		}
	}
}

// In the bubble it is the year 2000, and a second passes whenever everybody sleeps for one.
func TestBackend_ClientsClocks_AreNotCompared(t *testing.T) {
	s := newTable(t)
	outside := s.open(t)
	for name, future := range map[string]time.Duration{"past": 0, "future": 50 * 365 * 24 * time.Hour} {
		lease := win(t, outside, request("outside "+name, brief))
		var fence uint64
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(future)
			b := s.openWith(t, func(o *dynamodb.Options) {
				// A connection that is kept would be somebody who does not sleep.
				o.HTTPClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			})
			if h := holder(t, b, "outside "+name); h.Fence != lease.Fence() || h.Remaining <= 0 {
				t.Errorf("%s: holder %+v", name, h)
			}
			fence = win(t, b, request("inside "+name, brief)).Fence()
		})
		sent := time.Now()
		h := holder(t, outside, "inside "+name)
		if off := time.Since(h.Since); h.Fence != fence || off.Abs() > patience {
			t.Errorf("%s: holder %+v, acquired %v ago", name, h, off)
		}
		if off := time.Since(time.UnixMicro(int64(fence))); off.Abs() > patience {
			t.Errorf("%s: the fence begins %v ago", name, off)
		}
		if took := takeOver(t, outside, "inside "+name, long).Sub(sent); took < brief {
			t.Errorf("%s: taken over after %v", name, took)
		}
	}
}
