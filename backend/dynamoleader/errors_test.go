package dynamoleader_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/dynamoleader"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// scripted returns a backend whose every request gets an answer of the test.
func scripted(t testing.TB, answer tripper) *dynamoleader.Backend {
	t.Helper()
	return dynamoleader.New(client(t, "http://127.0.0.1:1", func(o *dynamodb.Options) {
		o.HTTPClient = &http.Client{Transport: answer}
	}), nil)
}

func TestBackend_Errors_HaveTheirKind(t *testing.T) {
	for _, test := range []struct {
		status int
		code   string
		want   backend.Kind
	}{
		{400, "ProvisionedThroughputExceededException", backend.Unavailable},
		{400, "ThrottlingException", backend.Unavailable},
		{400, "RequestLimitExceeded", backend.Unavailable},
		{400, "LimitExceededException", backend.Unavailable},
		{400, "TransactionConflictException", backend.Unavailable},
		{400, "ReplicatedWriteConflictException", backend.Unavailable},
		{400, "ResourceInUseException", backend.Unavailable},
		{500, "InternalServerError", backend.Unavailable},
		{503, "ServiceUnavailable", backend.Unavailable},
		{502, "SomethingNew", backend.Unavailable},
		{429, "SomethingNew", backend.Unavailable},
		{400, "AccessDeniedException", backend.Denied},
		{400, "UnrecognizedClientException", backend.Denied},
		{400, "ExpiredTokenException", backend.Denied},
		{400, "MissingAuthenticationTokenException", backend.Denied},
		{400, "IncompleteSignatureException", backend.Denied},
		{400, "InvalidSignatureException", backend.Denied},
		{403, "SomethingNew", backend.Denied},
		{401, "SomethingNew", backend.Denied},
		{400, "ResourceNotFoundException", backend.Misconfigured},
		{400, "ValidationException", backend.Misconfigured},
		{400, "UnknownOperationException", backend.Misconfigured},
		{400, "SerializationException", backend.Misconfigured},
		{404, "SomethingNew", backend.Misconfigured},
		{400, "SomethingNew", backend.Unknown},
	} {
		var sent atomic.Int64
		b := scripted(t, func(request *http.Request) (*http.Response, error) {
			sent.Add(1)
			return refusal(request, test.status, test.code), nil
		})
		_, err := b.Inspect(t.Context(), "a")
		kind(t, test.code, err, test.want)
		if api, ok := errors.AsType[smithy.APIError](err); !ok || api.ErrorCode() != test.code {
			t.Errorf("%s: %v, want the client's own error", test.code, err)
		}
		if n := sent.Load(); n != 1 {
			t.Errorf("%s: sent %d times, want that nobody but package leader tries again", test.code, n)
		}
	}
}

func TestBackend_Errors_WithoutAnAnswerHaveTheirKind(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want backend.Kind
	}{
		"cut":     {io.ErrUnexpectedEOF, backend.Unavailable},
		"closed":  {io.EOF, backend.Unavailable},
		"strange": {errors.New("strange"), backend.Unknown},
	} {
		b := scripted(t, func(*http.Request) (*http.Response, error) { return nil, test.err })
		_, err := b.Inspect(t.Context(), "a")
		if name == "strange" { // the SDK wraps what its transport returns as a failure to send
			if got := backend.KindOf(err); err == nil || got == backend.Denied || got == backend.Misconfigured {
				t.Errorf("%s: %v of kind %v", name, err, got)
			}
			continue
		}
		kind(t, name, err, test.want)
	}
}

func TestBackend_WithoutCredentials_IsDenied(t *testing.T) {
	b := dynamoleader.New(client(t, "http://127.0.0.1:1", func(o *dynamodb.Options) {
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, errors.New("nobody is logged in")
		})
	}), nil)
	_, err := b.Inspect(t.Context(), "a")
	kind(t, "Inspect", err, backend.Denied)
}

func TestBackend_WithoutItsTable_IsMisconfiguredAndHintsAtMigrate(t *testing.T) {
	s := newTable(t)
	b := dynamoleader.New(s.client, &dynamoleader.Options{Table: fresh()})
	elector, err := leader.New(b, leader.WithLogger(quiet()), leader.WithWaitTime(patience))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = elector.Acquire(t.Context(), "a")
	kind(t, "Acquire", err, backend.Misconfigured)
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); !ok || !strings.Contains(err.Error(), "Migrate") {
		t.Errorf("Acquire: %v, want the client's error and the hint", err)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it was tried for %v", took)
	}
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	win(t, b, request("a", long))
}

func TestRunIfLeader_IsTriedAgainWhileTheServiceIsThrottling(t *testing.T) {
	s := newTable(t)
	var together sync.WaitGroup
	defer together.Wait()
	for _, failure := range []struct {
		status int
		code   string
	}{
		{400, "ProvisionedThroughputExceededException"},
		{400, "ThrottlingException"},
		{400, "RequestLimitExceeded"},
		{500, "InternalServerError"},
		{503, "ServiceUnavailable"},
	} {
		const failures = 4
		var sent atomic.Int64
		b := s.openWith(t, func(o *dynamodb.Options) {
			o.Retryer = retry.NewStandard()
			over(func(next http.RoundTripper) http.RoundTripper {
				return tripper(func(request *http.Request) (*http.Response, error) {
					if sent.Add(1) <= failures {
						return refusal(request, failure.status, failure.code), nil
					}
					return next.RoundTrip(request)
				})
			})(o)
		})
		elector, err := leader.New(b, leader.WithLogger(quiet()), leader.WithWaitTime(patience))
		if err != nil {
			t.Fatal(err)
		}
		together.Go(func() {
			ran := false
			result, err := elector.RunIfLeader(t.Context(), failure.code, func(context.Context) error {
				ran = true
				return nil
			})
			if err != nil || !ran {
				t.Errorf("%s %d times: %+v, %v", failure.code, failures, result, err)
			}
		})
	}
}

func TestRunIfLeader_IsNotTriedAgainWhereAccessIsDenied(t *testing.T) {
	for _, code := range []string{"AccessDeniedException", "UnrecognizedClientException", "ExpiredTokenException"} {
		var sent atomic.Int64
		b := scripted(t, func(request *http.Request) (*http.Response, error) {
			sent.Add(1)
			return refusal(request, http.StatusBadRequest, code), nil
		})
		elector, err := leader.New(b, leader.WithLogger(quiet()), leader.WithWaitTime(patience))
		if err != nil {
			t.Fatal(err)
		}
		_, err = elector.RunIfLeader(t.Context(), "a", func(context.Context) error {
			t.Error("it ran")
			return nil
		})
		kind(t, code, err, backend.Denied)
		if n := sent.Load(); n > 2 { // an attempt, and at most its clean-up
			t.Errorf("%s: %d requests", code, n)
		}
	}
}

// The service refuses signatures of another hour, and the SDK learns the time from the refusal.
func TestRunIfLeader_ClockThatIsAnHourWrong_IsTriedAgain(t *testing.T) {
	s := newTable(t)
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		var refused atomic.Int64
		b := s.openWith(t, over(func(next http.RoundTripper) http.RoundTripper {
			return tripper(func(request *http.Request) (*http.Response, error) {
				now := time.Now().Add(off)
				date := now.UTC().Format(http.TimeFormat)
				signed, err := time.Parse("20060102T150405Z", request.Header.Get("X-Amz-Date"))
				if err != nil {
					return nil, err
				}
				if now.Sub(signed).Abs() > 5*time.Minute {
					refused.Add(1)
					answer := refusal(request, http.StatusBadRequest, "InvalidSignatureException")
					answer.Header.Set("Date", date)
					return answer, nil
				}
				answer, err := next.RoundTrip(request)
				if err == nil {
					answer.Header.Set("Date", date)
				}
				return answer, err
			})
		}))
		elector, err := leader.New(b, leader.WithLogger(quiet()), leader.WithWaitTime(patience))
		if err != nil {
			t.Fatal(err)
		}
		l, err := elector.Acquire(t.Context(), "a"+off.String())
		if err != nil {
			t.Fatalf("a clock that is off by %v: %v", -off, err)
		}
		if n := refused.Load(); n != 1 {
			t.Errorf("%d requests were refused, want the first", n)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestBackend_Check_ReportsEveryBadArgument(t *testing.T) {
	given := client(t, "http://127.0.0.1:1", nil)
	nowhere := dynamodb.New(dynamodb.Options{})
	for name, test := range map[string]struct {
		client *dynamodb.Client
		table  string
		want   []string
	}{
		"nothing":   {client: given},
		"a name":    {client: given, table: "My-leases_2.a"},
		"nil":       {want: []string{"client is nil"}},
		"no Region": {client: nowhere, want: []string{"no Region"}},
		"short":     {client: given, table: "ab", want: []string{`"ab"`}},
		"long":      {client: given, table: strings.Repeat("a", 256), want: []string{"aaa"}},
		"a symbol":  {client: given, table: "a/b/c", want: []string{`"a/b/c"`}},
		"several":   {table: "$$$", want: []string{"nil", `"$$$"`}},
	} {
		t.Run(name, func(t *testing.T) {
			b := dynamoleader.New(test.client, &dynamoleader.Options{Table: test.table})
			err := b.Check()
			if (err != nil) != (len(test.want) > 0) {
				t.Fatalf("Check: %v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Check: %v, want it to name %q", err, want)
				}
			}
			if err == nil {
				return
			}
			kind(t, "Check", err, backend.Misconfigured)
			if _, again := b.TryAcquire(t.Context(), request("a", time.Minute)); !errors.Is(again, err) {
				t.Errorf("TryAcquire: %v, want the error of Check", again)
			}
			if again := b.Migrate(t.Context()); !errors.Is(again, err) {
				t.Errorf("Migrate: %v, want the error of Check", again)
			}
			if _, err := leader.New(b); !errors.Is(err, b.Check()) {
				t.Errorf("leader.New: %v, want the error of Check", err)
			}
		})
	}
}
