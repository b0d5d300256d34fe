package jobs_test

import (
	"testing"
	"time"

	"github.com/goleader/leader/jobs"
)

func TestDuration_Parse_ReadsGoAndISO8601(t *testing.T) {
	for text, want := range map[jobs.Duration]time.Duration{
		"1m30s":          90 * time.Second,
		"250ms":          250 * time.Millisecond,
		"0":              0,
		"-5s":            -5 * time.Second, // for the rule of the setting to refuse
		"PT1M30S":        90 * time.Second,
		"PT0.25S":        250 * time.Millisecond,
		"PT0,25S":        250 * time.Millisecond,
		"PT0S":           0,
		"P1D":            24 * time.Hour,
		"P1DT12H":        36 * time.Hour,
		"P2W":            14 * 24 * time.Hour,
		"PT36H":          36 * time.Hour,
		"PT1.123456789S": time.Second + 123456789,
	} {
		if got, err := text.Parse(); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestDuration_Parse_RefusesWhatIsNone(t *testing.T) {
	for _, text := range []jobs.Duration{
		"", "30", "10x", "soon", "P", "PT", "P1DT", "P1Y", "P1M", "PT-5S", "-PT5S", "PT1.5M", "PT5", "P1H", "pt5s", "PT5S ", "PT.5S",
		"P999999999W", "PT9999999999999999999S", "PT9223372036854775807S", "P106751DT23H47M16.854775808S",
	} {
		if got, err := text.Parse(); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
	if got, err := jobs.Duration("P106751DT23H47M16.854775807S").Parse(); err != nil || got != 1<<63-1 {
		t.Errorf("the longest: %v, %v", got, err)
	}
}

func FuzzDuration_Parse(f *testing.F) {
	for _, text := range []string{"1m30s", "PT1M30S", "P1DT12H", "P2W", "PT0.5S", "P", "10x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := jobs.Duration(text).Parse()
		if err != nil {
			return
		}
		if text[0] == 'P' && d < 0 {
			t.Errorf("%q is %v", text, d)
		}
		if again, err := jobs.Duration(d.String()).Parse(); err != nil || again != d {
			t.Errorf("%q is %v, which is read as %v, %v", text, d, again, err)
		}
	})
}
