package history_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/history"
)

// textOf is the error text of the record of a run that failed with err.
func textOf(t *testing.T, err error) string {
	t.Helper()
	r, m := remembering(t, nil)
	_, runErr := electorOn(t, local.New(), r).RunIfLeader(t.Context(), "job", func(context.Context) error { return err })
	if runErr != nil {
		t.Fatal(runErr)
	}
	drain(t, r)
	return m.Recent("job", 1)[0].Error
}

type panics struct{}

func (*panics) Error() string { panic("no text") }

func TestRecorder_CleansTexts(t *testing.T) {
	rows := map[string]struct {
		err  error
		want string
	}{
		"plain":         {errors.New("no such file"), "no such file"},
		"other scripts": {errors.New("ключ ключа — 鍵"), "ключ ключа — 鍵"},
		"control":       {errors.New("a\nb\tc\x00d\x7fe\u0085f"), "a?b?c?d?e?f"},
		"separators":    {errors.New("a\u2028b\u2029c"), "a?b?c"},
		"not UTF-8":     {errors.New("a\xffb\xc3"), "a?b?"},
		"long":          {errors.New(strings.Repeat("x", 600)), strings.Repeat("x", 512)},
		"long, of two bytes each": {
			errors.New("x" + strings.Repeat("é", 300)), "x" + strings.Repeat("é", 255),
		},
		"long and not clean": {errors.New(strings.Repeat("\n", 600)), strings.Repeat("?", 512)},
		"no text":            {&panics{}, "%!v(PANIC=Error method: no text)"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			if got := textOf(t, row.err); got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}

func FuzzRecorder_CleansTexts(f *testing.F) {
	for _, seed := range []string{"", "plain", "a\nb", "\xff\xfe", strings.Repeat("é", 300), "\u2028", "�"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := textOf(t, errors.New(text))
		if len(got) > 512 || !utf8.ValidString(got) {
			t.Errorf("%d bytes of %q", len(got), got)
		}
		if strings.ContainsFunc(got, func(c rune) bool { return unicode.IsControl(c) || c == '\u2028' || c == '\u2029' }) {
			t.Errorf("unsafe: %q", got)
		}
		if len(text) <= 512 && utf8.RuneCountInString(got) != utf8.RuneCountInString(text) {
			t.Errorf("%q has lost characters of %q", got, text)
		}
	})
}

func TestRecorder_BoundsMetadata(t *testing.T) {
	m := map[string]string{"a\n": "b\r", "long": strings.Repeat("v", 300), strings.Repeat("k", 100): "x"}
	for i := range 20 {
		m[fmt.Sprintf("z%02d", i)] = "y"
	}
	r, memory := remembering(t, &history.Options{Metadata: m})
	m["a\n"] = "changed"
	if _, err := electorOn(t, local.New(), r).RunIfLeader(t.Context(), "job", nothing); err != nil {
		t.Fatal(err)
	}
	drain(t, r)
	got := memory.Recent("job", 1)[0].Metadata
	if len(got) != 16 || got["a?"] != "b?" || len(got["long"]) != 256 || got[strings.Repeat("k", 64)] != "x" {
		t.Errorf("%q", got)
	}
	if keys := slices.Sorted(maps.Keys(got)); keys[15] != "z12" {
		t.Errorf("the last key is %q", keys[15])
	}
}

func TestStatus_String(t *testing.T) {
	got := fmt.Sprint(history.Status(0), history.Running, history.Succeeded, history.Failed, history.Lost,
		history.Canceled, history.Skipped, history.NotRun, history.Status(99))
	if want := "None Running Succeeded Failed Lost Canceled Skipped NotRun None"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSlog_LogsByStatus(t *testing.T) {
	var log strings.Builder
	sink := history.NewSlog(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for s := history.Running; s <= history.NotRun; s++ {
		if err := sink.Write(t.Context(), []history.Record{{Name: "job", Status: s}}); err != nil {
			t.Fatal(err)
		}
	}
	for status, level := range map[string]string{
		"Running": "DEBUG", "Skipped": "DEBUG", "Succeeded": "INFO", "Canceled": "INFO", "Failed": "WARN", "Lost": "WARN",
		"NotRun": "WARN",
	} {
		if want := "level=" + level + " msg=run leader.name=job status=" + status; !strings.Contains(log.String(), want) {
			t.Errorf("no %q in\n%s", want, &log)
		}
	}
}

func TestRecord_LogsWhatIsSet(t *testing.T) {
	var log strings.Builder
	at := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	logger.Info("one", "r", history.Record{
		ID: "1", Name: "job", Node: "node-a", Fence: 7, Status: history.Lost, Started: at, Finished: at.Add(time.Second),
		Held: time.Second, Attempts: 1, Error: "late", Lost: "lease lost",
	})
	logger.Info("two", "r", history.Record{
		ID: "2", Name: "job", Status: history.Skipped, Started: at, Finished: at, Attempts: 1, Reason: "Contended", Holder: "node-b",
	})
	want := `level=INFO msg=one r.leader.name=job r.status=Lost r.run=1 r.started=2024-02-29T12:00:00.000Z ` +
		`r.leader.node=node-a r.leader.fence=7 r.slot=0 r.held=1s r.waited=0s r.attempts=1 r.lost="lease lost" r.err=late
level=INFO msg=two r.leader.name=job r.status=Skipped r.run=2 r.started=2024-02-29T12:00:00.000Z ` +
		`r.waited=0s r.attempts=1 r.reason=Contended r.holder=node-b
`
	if log.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &log, want)
	}
}

func TestNewSQL_RefusesBadArguments(t *testing.T) {
	if _, err := history.NewSQL(nil, nil); err == nil {
		t.Error("a nil handle is accepted")
	}
}
