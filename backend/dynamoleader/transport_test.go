package dynamoleader_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// tripper is a transport made of a function.
type tripper func(request *http.Request) (*http.Response, error)

func (f tripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// over puts a transport before that of a client.
func over(wrap func(next http.RoundTripper) http.RoundTripper) func(o *dynamodb.Options) {
	return func(o *dynamodb.Options) {
		given := o.HTTPClient.(*http.Client)
		o.HTTPClient = &http.Client{Transport: wrap(given.Transport)}
	}
}

// operation is what a request asks for, such as UpdateItem.
func operation(request *http.Request) string {
	_, name, _ := strings.Cut(request.Header.Get("X-Amz-Target"), ".")
	return name
}

// counter counts requests, and those that write.
type counter struct{ requests, writes atomic.Int64 }

func (c *counter) count(next http.RoundTripper) http.RoundTripper {
	return tripper(func(request *http.Request) (*http.Response, error) {
		c.requests.Add(1)
		if op := operation(request); op == "UpdateItem" || op == "DeleteItem" {
			c.writes.Add(1)
		}
		return next.RoundTrip(request)
	})
}

// answered is an answer with a status and a body.
func answered(request *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// refusal is an answer with an error of the service.
func refusal(request *http.Request, status int, code string) *http.Response {
	return answered(request, status, `{"__type":"com.amazonaws.dynamodb.v20120810#`+code+`","message":"as the test wants"}`)
}

// telling adds to the refusals of an endpoint what the real one adds to them: the item, where it was asked for.
func telling(t testing.TB) func(o *dynamodb.Options) {
	t.Helper()
	return over(func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(request *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(request.Body)
			if err != nil {
				return nil, err
			}
			request.Body = io.NopCloser(bytes.NewReader(body))
			answer, err := next.RoundTrip(request)
			if err != nil || answer.StatusCode != http.StatusBadRequest {
				return answer, err
			}
			return withItem(next, request, body, answer)
		})
	})
}

func withItem(next http.RoundTripper, request *http.Request, sent []byte, answer *http.Response) (*http.Response, error) {
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(text))
	var asked struct {
		TableName, ReturnValuesOnConditionCheckFailure string
		Key                                            json.RawMessage
	}
	refused := map[string]json.RawMessage{}
	if json.Unmarshal(sent, &asked) != nil || json.Unmarshal(text, &refused) != nil ||
		asked.ReturnValuesOnConditionCheckFailure != "ALL_OLD" ||
		!strings.Contains(string(refused["__type"]), "ConditionalCheckFailed") {
		return answer, nil
	}
	look, err := json.Marshal(map[string]any{"TableName": asked.TableName, "Key": asked.Key, "ConsistentRead": true})
	if err != nil {
		return nil, err
	}
	ask := request.Clone(request.Context())
	ask.Header.Set("X-Amz-Target", "DynamoDB_20120810.GetItem")
	ask.Body, ask.ContentLength = io.NopCloser(bytes.NewReader(look)), int64(len(look))
	found, err := next.RoundTrip(ask)
	if err != nil {
		return nil, err
	}
	defer found.Body.Close()
	var item map[string]json.RawMessage
	if err := json.NewDecoder(found.Body).Decode(&item); err != nil {
		return nil, err
	}
	if len(item["Item"]) > 0 {
		refused["Item"] = item["Item"]
	}
	if text, err = json.Marshal(refused); err != nil {
		return nil, err
	}
	header := answer.Header.Clone()
	header.Del("X-Amz-Crc32")
	answer = answered(request, http.StatusBadRequest, string(text))
	answer.Header = header
	return answer, nil
}

// switched is a transport that tests change while it is used.
type switched struct {
	mu   sync.Mutex
	then tripper
}

func (s *switched) set(f tripper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.then = f
}

// wrap returns what is set, or what the transport below does where that returns neither an answer nor an error.
func (s *switched) wrap(next http.RoundTripper) http.RoundTripper {
	return tripper(func(request *http.Request) (*http.Response, error) {
		s.mu.Lock()
		then := s.then
		s.mu.Unlock()
		if then != nil {
			if answer, err := then(request); answer != nil || err != nil {
				return answer, err
			}
		}
		return next.RoundTrip(request)
	})
}
