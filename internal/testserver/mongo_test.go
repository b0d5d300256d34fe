package testserver

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

func ownMongo(t *testing.T) *Server {
	t.Helper()
	t.Setenv(MongoURLEnv, "")
	return Mongo(t)
}

// mongoDo sends a command to a database of the tests and returns the document that answers it.
func mongoDo(t *testing.T, s *Server, elements string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answer, err := askMongo(ctx, s.Addr(), bsonDocument(elements+"\x02$db\x00"+bsonString("leader")))
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func mongoInsert(value string) string {
	return "\x02insert\x00" + bsonString("c") +
		"\x04documents\x00" + bsonDocument("\x030\x00"+bsonDocument("\x02v\x00"+bsonString(value)))
}

const mongoFind = "\x02find\x00" + "\x02\x00\x00\x00c\x00"

func TestMongo_Restart_KeepsDataAndAddress(t *testing.T) {
	s := ownMongo(t)
	addr := s.Addr()
	if !s.Owned() || s.URL() != "mongodb://"+addr {
		t.Errorf("owned %t, URL %s", s.Owned(), s.URL())
	}
	for _, value := range []string{"value 1", "value 2"} {
		if answer := mongoDo(t, s, mongoFind); strings.Contains(answer, value) {
			t.Fatalf("%s is there already: %q", value, answer)
		}
		mongoDo(t, s, mongoInsert(value))
		s.Kill9(t) // at once
		if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr); err == nil {
			_ = conn.Close()
			t.Fatal("a killed server accepts connections")
		}
		s.Restart(t)
		if answer := mongoDo(t, s, mongoFind); !strings.Contains(answer, value) {
			t.Errorf("%s is lost: %q", value, answer)
		}
	}
	if s.Addr() != addr {
		t.Errorf("address %s became %s", addr, s.Addr())
	}
}

func TestMongo_RefusesAnExpressionInAnUpsert(t *testing.T) {
	s := ownMongo(t)
	command := func(query string) string {
		return "\x02findAndModify\x00" + bsonString("c") + "\x08upsert\x00\x01" +
			"\x03query\x00" + bsonDocument(query) +
			"\x03update\x00" + bsonDocument("\x03$set\x00"+bsonDocument("\x02v\x00"+bsonString("x")))
	}
	if answer := mongoDo(t, s, command("\x02v\x00"+bsonString("y"))); strings.Contains(answer, "errmsg") {
		t.Errorf("an upsert without: %q", answer)
	}
	if answer := mongoDo(t, s, command("\x08$expr\x00\x01")); !strings.Contains(answer, "QueryFeatureNotAllowed") {
		t.Errorf("an upsert with: %q", answer)
	}
}

func TestMongo_Stop_AnswersNothingUntilCont(t *testing.T) {
	s := ownMongo(t)
	s.Stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := pingMongo(ctx, s.Addr()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stopped server: %v", err)
	}
	s.Cont(t)
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := pingMongo(ctx, s.Addr()); err != nil {
		t.Error(err)
	}
}

func TestMongo_LeavesNothingBehind(t *testing.T) {
	ownMongo(t) // or skip
	var s *Server
	if err := Run(t.Context(), func(tb TB) { s = Mongo(tb) }); err != nil {
		t.Fatal(err)
	}
	if s.process.running() {
		t.Error("the server outlived Run")
	}
	if _, err := os.Stat(s.process.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data folder: %v", err)
	}
}

func TestMongo_TakesTheServerInTheEnvironment(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	urls := []string{
		"mongodb://" + addr, "mongodb://u:p%40@" + addr + "/?replicaSet=rs", "mongodb://" + addr + ",other:27017?a=b",
	}
	for _, given := range urls {
		t.Setenv(MongoURLEnv, given)
		if s := Mongo(t); s.Owned() || s.Addr() != addr || s.URL() != given {
			t.Errorf("%s: owned %t, address %s, URL %s", given, s.Owned(), s.Addr(), s.URL())
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, given := range append(urls, "redis://"+addr, addr, "mongodb://", "mongodb://host") {
		t.Setenv(MongoURLEnv, given)
		if v := judge(t, func(t TB) { Mongo(t) }); v.failed == "" {
			t.Errorf("%s was accepted", given)
		}
	}
}

func TestPingMongo_FailsOnAnotherServer(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "-ERR unknown command\r\n")
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := pingMongo(ctx, l.Addr().String()); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("another server: %v", err)
	}
}

func TestMongo_IsMissing_WithoutJava(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(MongoURLEnv, "")
	t.Setenv(RequireEnv, "mongo")
	v := judge(t, func(t TB) { Mongo(t) })
	if !strings.Contains(v.failed, "make servers") {
		t.Errorf("failed with %q", v.failed)
	}
}
