//go:build !linux

package backendtest

import "time"

// thisMoment reads the wall clock, the one that all processes share. It must not be set while a test runs.
func thisMoment() moment { return moment(time.Now().UnixNano()) }
