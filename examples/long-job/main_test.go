package main

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/goleader/leader/examples/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

func TestLongJob_IsExtendedLimitedAndToldOfALoss(t *testing.T) {
	out := exampletest.Run(t, exampletest.Build(t), "-redis", testserver.Redis(t).Addr())
	t.Logf("\n%s", out)
	extended := regexp.MustCompile(`extended: worked for (\d+) leases, renewed (\d+) times, lost: false\n`).FindStringSubmatch(out)
	if extended == nil {
		t.Fatal("the long job is not shown, or it lost its lease")
	}
	leases, _ := strconv.Atoi(extended[1])
	if renewals, _ := strconv.Atoi(extended[2]); leases < 3 || renewals < leases {
		t.Errorf("worked for %d leases with %d renewals, want three or more, and a renewal in each", leases, renewals)
	}
	for _, line := range []string{
		`standby Skipped \(Contended, held by worker\)`,
		`limited: told to end after [2-9] leases: true`,
		`cut: stopped trusting its lease [0-9.]+m?s before the standby led`,
		`standby leads, fence \d+`,
	} {
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("no line like %q", line)
		}
	}
}
