package jobs

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is the text of a duration, as Go writes it ("1m30s") or ISO 8601 ("PT1M30S", "P1D"). It stays a text until
// [New] looks at it; "" is none.
type Duration string

// Parse is the duration of the text. Days have 24 hours, and weeks seven days; years and months have no length.
func (d Duration) Parse() (time.Duration, error) {
	if !strings.HasPrefix(string(d), "P") {
		parsed, err := time.ParseDuration(string(d))
		if err != nil {
			return 0, fmt.Errorf("%q is no duration, such as 1m30s or PT1M30S", string(d))
		}
		return parsed, nil
	}
	parsed, err := parseISO(string(d))
	if err != nil {
		return 0, fmt.Errorf("%q is no duration: %w", string(d), err)
	}
	return parsed, nil
}

var iso = regexp.MustCompile(`^P(\d+W)?(\d+D)?(?:T(\d+H)?(\d+M)?(?:(\d+)(?:[.,](\d{1,9}))?S)?)?$`)

// parseISO is for the forms that have a length.
func parseISO(text string) (time.Duration, error) {
	parts := iso.FindStringSubmatch(text)
	switch {
	case parts == nil:
		return 0, errors.New("want weeks, days, hours, minutes and seconds, such as P1DT12H or PT0.5S")
	case text == "P" || strings.HasSuffix(text, "T"):
		return 0, errors.New("it has no parts")
	}
	var sum time.Duration
	units := []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second}
	for i, unit := range units {
		digits := strings.TrimRight(parts[i+1], "WDHM")
		if digits == "" {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n > (math.MaxInt64-int64(sum))/int64(unit) {
			return 0, errors.New("it is too long")
		}
		sum += time.Duration(n) * unit
	}
	if fraction := parts[6]; fraction != "" {
		n, err := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
		if err != nil || n > math.MaxInt64-int64(sum) {
			return 0, errors.New("it is too long")
		}
		sum += time.Duration(n)
	}
	return sum, nil
}
