package raftleader

import (
	"context"
	"net"
	"slices"

	"github.com/goleader/leader/backend/raftleader/internal/wire"
)

// Advise warns of a cluster that forgets, that stands still when one node is missing, or that anybody may take part in.
// It asks the raft leader for a sign of life first, so that it fails where every call does.
func (b *Backend) Advise(ctx context.Context) ([]string, error) {
	if _, err := b.ask(ctx, wire.Request{Topic: wire.Inspect}); err != nil {
		return nil, err
	}
	var warnings []string
	nodes := len(b.config.Peers)
	if nodes == 1 && b.config.Dir == "" {
		warnings = append(warnings, "the only node keeps its log in memory: a restart forgets every lease")
	}
	if nodes == 2 {
		warnings = append(warnings, "with two nodes nobody is elected while one of them is away: have one or three")
	}
	if b.config.TLS == nil && slices.ContainsFunc(b.config.Peers, isExposed) {
		warnings = append(warnings, "without TLS whoever reaches the port can elect and dismiss leaders")
	}
	return warnings, nil
}

// isExposed reports whether other machines may reach an address.
func isExposed(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return host != "localhost" && (ip == nil || !ip.IsLoopback())
}
