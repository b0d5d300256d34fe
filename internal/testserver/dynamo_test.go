package testserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func ownDynamo(t *testing.T) *Server {
	t.Helper()
	t.Setenv(DynamoURLEnv, "")
	return Dynamo(t)
}

// dynamoDo sends an operation and returns the body of its answer.
func dynamoDo(t *testing.T, s *Server, operation, body string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	text, err := askDynamo(ctx, s, operation, body)
	if err != nil {
		t.Fatalf("%s: %v", operation, err)
	}
	return text
}

func askDynamo(ctx context.Context, s *Server, operation, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL(), strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Close = true
	for name, value := range map[string]string{
		"Content-Type": "application/x-amz-json-1.0",
		"X-Amz-Target": "DynamoDB_20120810." + operation,
		"X-Amz-Date":   "20300101T000000Z",
		"Authorization": "AWS4-HMAC-SHA256 Credential=a/20300101/eu-central-1/dynamodb/aws4_request, " +
			"SignedHeaders=host;x-amz-date, Signature=a",
	} {
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

const (
	dynamoSchema = `{"TableName":"test","BillingMode":"PAY_PER_REQUEST",` +
		`"AttributeDefinitions":[{"AttributeName":"k","AttributeType":"S"}],` +
		`"KeySchema":[{"AttributeName":"k","KeyType":"HASH"}]}`
	dynamoPut = `{"TableName":"test","Item":{"k":{"S":%q}},"ConditionExpression":"attribute_not_exists(k)"}`
)

// dynamoTable makes a table and waits until it can be used.
func dynamoTable(t *testing.T, s *Server) {
	t.Helper()
	dynamoDo(t, s, "CreateTable", dynamoSchema)
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if strings.Contains(dynamoDo(t, s, "DescribeTable", `{"TableName":"test"}`), `"ACTIVE"`) {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the table is never made")
		}
	}
}

func TestDynamo_Restart_KeepsDataAndAddress(t *testing.T) {
	s := ownDynamo(t)
	addr := s.Addr()
	if !s.Owned() || s.URL() != "http://"+addr || s.Password() != "" {
		t.Errorf("owned %t, URL %s", s.Owned(), s.URL())
	}
	dynamoTable(t, s)
	for _, key := range []string{"1", "2"} {
		if answer := dynamoDo(t, s, "PutItem", fmt.Sprintf(dynamoPut, key)); answer != "{}" {
			t.Fatalf("put %s: %s", key, answer)
		}
		s.Kill9(t) // at once
		if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr); err == nil {
			_ = conn.Close()
			t.Fatal("a killed server accepts connections")
		}
		s.Restart(t)
		answer := dynamoDo(t, s, "PutItem", fmt.Sprintf(dynamoPut, key))
		if !strings.Contains(answer, "ConditionalCheckFailedException") {
			t.Errorf("%s is lost: %s", key, answer)
		}
	}
	if s.Addr() != addr {
		t.Errorf("address %s became %s", addr, s.Addr())
	}
}

func TestDynamo_Stop_AnswersNothingUntilCont(t *testing.T) {
	s := ownDynamo(t)
	s.Stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := pingDynamo(ctx, s.Addr()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stopped server: %v", err)
	}
	s.Cont(t)
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := pingDynamo(ctx, s.Addr()); err != nil {
		t.Errorf("a server that goes on: %v", err)
	}
}

// A client that goes away with its request half sent ends only that.
func TestDynamo_LivesOnWhenARequestIsGivenUp(t *testing.T) {
	s := ownDynamo(t)
	for range 20 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
		if err := errors.Join(err, conn.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if answer := dynamoDo(t, s, "ListTables", "{}"); !strings.Contains(answer, "TableNames") {
		t.Errorf("ListTables: %s", answer)
	}
	if !s.process.running() {
		t.Error("the server has ended")
	}
}

func TestDynamo_GivenByTheEnvironment_IsUsedAndNotOwned(t *testing.T) {
	s := ownDynamo(t)
	t.Setenv(DynamoURLEnv, s.URL())
	given := Dynamo(t)
	if given.Owned() || given.Addr() != s.Addr() || given.URL() != s.URL() {
		t.Errorf("owned %t, address %s, URL %s", given.Owned(), given.Addr(), given.URL())
	}
}
