//go:build !unix

package child

import (
	"context"
	"os"
	"time"
)

// Process would be a running command.
type Process struct{}

// IsGuard reports false: there are no guards.
func IsGuard() bool { return false }

// Guard does nothing.
func Guard() int { return 1 }

// Start returns ErrUnsupported.
func Start(context.Context, *Command, time.Time) (*Process, error) { return nil, ErrUnsupported }

// Trust does nothing.
func (*Process) Trust(time.Time) {}

// Signal does nothing.
func (*Process) Signal(os.Signal) {}

// Stop does nothing.
func (*Process) Stop() {}

// Kill does nothing.
func (*Process) Kill() {}

// Done returns nil.
func (*Process) Done() <-chan struct{} { return nil }

// Status is zero.
func (*Process) Status() Status { return Status{} }
