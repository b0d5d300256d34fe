package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// printJSON writes a document to the standard output.
func (t *tool) printJSON(v any) error { return writeJSON(t.out, t.document(v), true) }

// printLine writes a document to the standard output, in one line.
func (t *tool) printLine(v any) error { return writeJSON(t.out, t.document(v), false) }

// printErr writes a line of JSON beside the output.
func (t *tool) printErr(v any) { _ = writeJSON(t.errLines, t.document(v), false) } // there is no place to complain

// document is v for JSON. What programs go by is left as it is, also where it looks like a secret.
func (t *tool) document(v any) any {
	return t.secrets.Document(v, "name", "status", "outcome", "check")
}

// text is text for a table that is more than a name, and may have secrets.
func (t *tool) text(text string) string { return t.secrets.Text(text) }

func writeJSON(w io.Writer, v any, indent bool) error {
	var text []byte
	var err error
	if indent {
		text, err = json.MarshalIndent(v, "", "  ")
	} else {
		text, err = json.Marshal(v)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// table writes rows in columns, of which the first one is the head.
func (t *tool) table(rows [][]string) error {
	w := tabwriter.NewWriter(t.out, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = printable(row[i])
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return w.Flush()
}

// printable is text without what would move a terminal's cursor. Nothing is shown as a dash.
func printable(text string) string {
	if text == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return '?'
		}
		return r
	}, text)
}

// seconds is a duration for JSON.
func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// optional is an instant for JSON; nil if it is not known.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Round(time.Microsecond)
	return &t
}

// clock is an instant for people.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// span is a duration for people.
func span(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
