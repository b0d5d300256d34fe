package dynamoleader_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/dynamoleader"
	"github.com/goleader/leader/internal/testserver"
)

func TestBackend_Migrate_MayBeRepeatedByManyAtOnce(t *testing.T) {
	s := newTable(t)
	name := fresh()
	var together sync.WaitGroup
	for range 4 {
		together.Go(func() {
			b := dynamoleader.New(client(t, s.server.URL(), nil), &dynamoleader.Options{Table: name})
			if err := b.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
			win(t, b, request("job-"+fresh(), long))
		})
	}
	together.Wait()
	b := s.open(t)
	win(t, b, request("kept", long))
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	holder(t, b, "kept")
}

func TestBackend_Migrate_RefusesATableWithAnotherKey(t *testing.T) {
	server := testserver.Dynamo(t)
	c := client(t, server.URL(), nil)
	for what, change := range map[string]func(s *dynamodb.CreateTableInput){
		"another name": func(s *dynamodb.CreateTableInput) {
			s.KeySchema[0].AttributeName, s.AttributeDefinitions[0].AttributeName = aws.String("id"), aws.String("id")
		},
		"another type": func(s *dynamodb.CreateTableInput) {
			s.AttributeDefinitions[1].AttributeType = types.ScalarAttributeTypeN
		},
		"no sort key": func(s *dynamodb.CreateTableInput) {
			s.KeySchema, s.AttributeDefinitions = s.KeySchema[:1], s.AttributeDefinitions[:1]
		},
	} {
		s := dynamoleader.Schema(fresh())
		change(s)
		if _, err := c.CreateTable(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		b := dynamoleader.New(c, &dynamoleader.Options{Table: *s.TableName})
		kind(t, what, b.Migrate(t.Context()), backend.Misconfigured)
		if warnings, err := b.Advise(t.Context()); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "key") {
			t.Errorf("%s: Advise: %q, %v", what, warnings, err)
		}
		_, err := b.TryAcquire(t.Context(), request("a", long))
		kind(t, what, err, backend.Misconfigured)
		if !server.Owned() {
			_, _ = c.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: s.TableName})
		}
	}
}

// scriptedTable answers what Migrate asks as the real service does, which knows TTLs.
type scriptedTable struct {
	ttl     string // the answer to DescribeTimeToLive
	enabled atomic.Int64
	raced   bool // another process makes the TTL at the same moment
	refuses bool // to make one
}

func (s *scriptedTable) answer(request *http.Request) (*http.Response, error) {
	const table = `{"TableName":"leader","TableStatus":"ACTIVE",` +
		`"KeySchema":[{"AttributeName":"name","KeyType":"HASH"},{"AttributeName":"part","KeyType":"RANGE"}]`
	switch operation(request) {
	case "CreateTable":
		return refusal(request, http.StatusBadRequest, "ResourceInUseException"), nil
	case "DescribeTable":
		return answered(request, http.StatusOK, `{"Table":`+table+`,"Replicas":[{"RegionName":"eu-west-1"}]}}`), nil
	case "DescribeTimeToLive":
		return answered(request, http.StatusOK, s.ttl), nil
	case "UpdateTimeToLive":
		s.enabled.Add(1)
		if s.raced {
			s.ttl = `{"TimeToLiveDescription":{"TimeToLiveStatus":"ENABLING","AttributeName":"expires"}}`
		}
		if s.raced || s.refuses {
			return refusal(request, http.StatusBadRequest, "ValidationException"), nil
		}
		return answered(request, http.StatusOK, `{}`), nil
	}
	return refusal(request, http.StatusBadRequest, "UnknownOperationException"), nil
}

func TestBackend_Migrate_MakesExpiresTheTTLWhereThereIsNone(t *testing.T) {
	for ttl, want := range map[string]int64{
		`{"TimeToLiveDescription":{"TimeToLiveStatus":"DISABLED"}}`:                               1,
		`{"TimeToLiveDescription":{"TimeToLiveStatus":"ENABLED","AttributeName":"expires"}}`:      0,
		`{"TimeToLiveDescription":{"TimeToLiveStatus":"ENABLING","AttributeName":"expires"}}`:     0,
		`{"TimeToLiveDescription":{"TimeToLiveStatus":"ENABLED","AttributeName":"of the owner"}}`: 0,
	} {
		s := &scriptedTable{ttl: ttl}
		if err := scripted(t, s.answer).Migrate(t.Context()); err != nil {
			t.Errorf("%s: %v", ttl, err)
		}
		if n := s.enabled.Load(); n != want {
			t.Errorf("%s: enabled %d times, want %d", ttl, n, want)
		}
	}
}

func TestBackend_Migrate_AnotherProcessMakesTheTTLMeanwhile(t *testing.T) {
	const none = `{"TimeToLiveDescription":{"TimeToLiveStatus":"DISABLED"}}`
	if err := scripted(t, (&scriptedTable{ttl: none, raced: true}).answer).Migrate(t.Context()); err != nil {
		t.Error(err)
	}
	err := scripted(t, (&scriptedTable{ttl: none, refuses: true}).answer).Migrate(t.Context())
	kind(t, "a refusal that stays", err, backend.Misconfigured)
}

func TestBackend_Advise_WarnsOfReplicasAndOfAnotherTTL(t *testing.T) {
	s := &scriptedTable{ttl: `{"TimeToLiveDescription":{"TimeToLiveStatus":"ENABLED","AttributeName":"until"}}`}
	warnings, err := scripted(t, s.answer).Advise(t.Context())
	if err != nil || len(warnings) != 2 {
		t.Fatalf("Advise: %q, %v", warnings, err)
	}
	for i, want := range []string{"replicas", `"until"`} {
		if !strings.Contains(warnings[i], want) {
			t.Errorf("warning %q, want it to name %s", warnings[i], want)
		}
	}
}

func TestBackend_Advise_PassesOverWhatItMustNotSee(t *testing.T) {
	b := scripted(t, func(request *http.Request) (*http.Response, error) {
		return refusal(request, http.StatusBadRequest, "AccessDeniedException"), nil
	})
	if warnings, err := b.Advise(t.Context()); err != nil || len(warnings) != 0 {
		t.Errorf("Advise: %q, %v", warnings, err)
	}
	b = scripted(t, func(request *http.Request) (*http.Response, error) {
		return refusal(request, http.StatusBadRequest, "ThrottlingException"), nil
	})
	_, err := b.Advise(t.Context())
	kind(t, "Advise", err, backend.Unavailable)
	s := newTable(t)
	if warnings, err := s.open(t).Advise(t.Context()); err != nil || len(warnings) != 0 {
		t.Errorf("Advise of a good table: %q, %v", warnings, err)
	}
}
