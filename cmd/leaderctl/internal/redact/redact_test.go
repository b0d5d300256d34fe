package redact_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/goleader/leader/cmd/leaderctl/internal/redact"
)

func TestSecrets_AreHiddenInAllTheirForms(t *testing.T) {
	t.Parallel()
	var s redact.Secrets
	s.Add("p@ss/w%rd", "", "abc")
	for text, want := range map[string]string{
		"auth p@ss/w%rd failed":        "auth xxxxx failed",
		"redis://u:p%40ss%2Fw%25rd@h":  "redis://u:xxxxx@h",
		"mysql u:abc@tcp":              "mysql u:xxxxx@tcp",
		"abcdef is an ordinary word":   "abcdef is an ordinary word",
		"nothing":                      "nothing",
		"p@ss/w%rd and then p@ss/w%rd": "xxxxx and then xxxxx",
	} {
		if got := s.Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestSecrets_ALongerOneIsHiddenBeforeItsPart(t *testing.T) {
	t.Parallel()
	var s redact.Secrets
	s.Add("pass", "password")
	if got := s.Text("password"); got != "xxxxx" {
		t.Errorf("got %q", got)
	}
}

func TestSecrets_AddFromFindsPasswordsOfURLs(t *testing.T) {
	t.Parallel()
	var s redact.Secrets
	s.AddFrom("LEADER_STORE=mongodb://user:se%2Fcret@a:1,b:2/d LEADER_HISTORY=postgres://u:other@h/d http://h:80/x")
	if got := s.Text("se%2Fcret se/cret other http://h:80/x"); got != "xxxxx xxxxx xxxxx http://h:80/x" {
		t.Errorf("got %q", got)
	}
}

func TestSecrets_AreHiddenInQuotesAndJSON(t *testing.T) {
	t.Parallel()
	const secret = `p<"\&s`
	var s redact.Secrets
	s.Add(secret)
	inJSON, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := json.Marshal("host " + strconv.Quote(secret))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		strconv.Quote(secret): `"xxxxx"`, string(inJSON): `"xxxxx"`, string(twice): `"host \"xxxxx\""`,
	} {
		if got := s.Text(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestSecrets_AddFromFindsPasswordsThatAreNotEscaped(t *testing.T) {
	t.Parallel()
	var s redact.Secrets
	s.AddFrom("redis://:ab/cd?ef@h:6379 postgres://u:other@h/d?application_name=me@home")
	if got := s.Text("ab/cd?ef other"); got != "xxxxx xxxxx" {
		t.Errorf("got %q", got)
	}
}

func TestWriter_TellsTheLengthOfWhatItWasGiven(t *testing.T) {
	t.Parallel()
	var s redact.Secrets
	var b bytes.Buffer
	w := s.Writer(&b)
	s.Add("verysecret")
	n, err := io.Copy(w, strings.NewReader("a verysecret b"))
	if err != nil || n != 14 || b.String() != "a xxxxx b" {
		t.Errorf("%d, %v, %q", n, err, b.String())
	}
}
