//go:build !linux

package leader

import "time"

// suspendedTime cannot tell here; see clock.look for what follows.
func suspendedTime() (time.Duration, bool) { return 0, false }
