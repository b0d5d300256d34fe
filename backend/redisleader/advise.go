package redisleader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
)

// Advise reads the settings of the server, or of each primary of a cluster, with INFO, and warns of an evicting memory
// policy and of a missing append-only file. Where INFO is refused it warns that it could not look.
func (b *Backend) Advise(ctx context.Context) ([]string, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	cluster, ok := b.client.(*redis.ClusterClient)
	if !ok {
		return b.adviseServer(ctx, b.client)
	}
	var (
		mu   sync.Mutex
		list []string
	)
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		warnings, err := b.adviseServer(ctx, node)
		mu.Lock()
		defer mu.Unlock()
		list = append(list, warnings...)
		return err
	})
	if err != nil {
		return nil, b.classify(ctx, err)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// infoer is a client that can be asked for the settings of one server.
type infoer interface {
	Info(ctx context.Context, sections ...string) *redis.StringCmd
}

func (b *Backend) adviseServer(ctx context.Context, c infoer) ([]string, error) {
	text, err := c.Info(ctx).Result()
	if err := b.classify(ctx, err); err != nil {
		if _, answered := errors.AsType[redis.Error](err); answered && backend.KindOf(err) != backend.Unavailable {
			return []string{fmt.Sprintf("settings could not be read (%v): "+
				"check that maxmemory-policy is noeviction and appendonly is yes", err)}, nil
		}
		return nil, err
	}
	return advice(text), nil
}

// advice judges the answer to INFO.
func advice(info string) []string {
	settings := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			settings[name] = value
		}
	}
	var list []string
	policy := settings["maxmemory_policy"]
	if limit := settings["maxmemory"]; policy != "noeviction" && limit != "" && limit != "0" {
		list = append(list, fmt.Sprintf("maxmemory-policy is %s: a full server may evict a lease, "+
			"and another node leads at once; use noeviction", policy))
	}
	if settings["aof_enabled"] == "0" {
		list = append(list, "appendonly is no: a restarted server has forgotten its leases, "+
			"and another node leads at once; use appendonly yes with appendfsync always")
	}
	return list
}
