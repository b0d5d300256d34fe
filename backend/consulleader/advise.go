package consulleader

import (
	"context"
)

// Advise warns of an agent that keeps nothing over a restart, and of one whose leaving ends all sessions of its node
// without a lock-delay to cover that. It needs agent:read.
func (b *Backend) Advise(ctx context.Context) (warnings []string, err error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	// The client's own call knows no context.
	var self struct {
		DebugConfig struct {
			DevMode     bool
			LeaveOnTerm bool
		}
	}
	if _, err := b.client.Raw().Query("/v1/agent/self", &self, queryOptions(ctx)); err != nil {
		return nil, classify(ctx, err)
	}
	c := self.DebugConfig
	if c.DevMode {
		warnings = append(warnings, "consul runs with -dev: a restart forgets all leases")
	}
	if c.LeaveOnTerm && b.lockDelay(minTTL) == 0 {
		warnings = append(warnings, "the consul agent leaves when it is terminated (leave_on_terminate), which ends all "+
			"leases of its services at once, and Options.LockDelay is off: two may trust one until the first has noticed")
	}
	return warnings, nil
}
