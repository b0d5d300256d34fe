package redact_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/goleader/leader/cmd/leaderctl/internal/redact"
)

type part struct {
	Name string `json:"name"`
	Why  string `json:"why,omitempty"`
}

type document struct {
	part

	Fence  uint64            `json:"fence"`
	At     *time.Time        `json:"at"`
	Facts  map[string]string `json:"facts"`
	Parts  []part            `json:"parts"`
	Texts  []string          `json:"texts"`
	Pair   [2]string         `json:"pair"`
	None   []string          `json:"none"`
	Any    any               `json:"any"`
	hidden string
}

func TestDocument_HasNoSecretsInItsTextsAlone(t *testing.T) {
	t.Parallel()
	var s redact.Secrets
	s.Add("1796", "name", "root", "2026")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	v := document{
		part: part{Name: "rooted", Why: "rooted"}, Fence: 17960001796, At: &at, Facts: map[string]string{"name": "root"},
		Parts: []part{{Name: "root", Why: "the name"}}, Texts: []string{"1796"}, Pair: [2]string{"a", "1796"}, Any: &part{Name: "name", Why: "1796"},
		hidden: "root",
	}
	got, err := json.Marshal(s.Document(&v, "name"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"rooted","why":"xxxxxed","fence":17960001796,"at":"2026-01-02T03:04:05Z","facts":{"name":"xxxxx"},` +
		`"parts":[{"name":"root","why":"the xxxxx"}],"texts":["xxxxx"],"pair":["a","xxxxx"],"none":null,"any":{"name":"name","why":"xxxxx"}}`
	if string(got) != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	if v.Why != "rooted" || v.Facts["name"] != "root" || v.Parts[0].Why != "the name" || v.Texts[0] != "1796" || v.hidden != "root" {
		t.Errorf("the document itself was changed: %+v", v)
	}
}

func TestDocument_KeepsWhatIsNothing(t *testing.T) {
	t.Parallel()
	var s redact.Secrets
	if got := s.Document(nil); got != nil {
		t.Errorf("nothing became %v", got)
	}
	if got, err := json.Marshal(s.Document([]part{})); err != nil || string(got) != "[]" {
		t.Errorf("an empty list became %s, %v", got, err)
	}
}
