package hazelcastleader

import (
	"slices"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/cluster"
	"github.com/hazelcast/hazelcast-go-client/types"
)

// generatorName is the name of the Flake id generator by which a backend reads the members' clock.
const generatorName = "leader-clock"

// Configure changes the configuration of a client that is about to be started, so that a [Backend] can be used on it: the
// client does not keep Flake ids of the backend's generator in stock, and it asks the same member as all others for
// whatever any member can answer ([PinnedBalancer]), unless it has a load balancer of its own. It does nothing the
// second time.
func Configure(config *hazelcast.Config) {
	if config.Cluster.LoadBalancer() == nil {
		config.Cluster.SetLoadBalancer(PinnedBalancer())
	}
	if _, ok := config.FlakeIDGenerators[generatorName]; !ok {
		// It refuses other numbers, and a name that it has.
		_ = config.AddFlakeIDGenerator(generatorName, 1, types.Duration(0))
	}
}

// PinnedBalancer returns a load balancer that chooses the smallest address, as text. All clients that know the members by
// the same addresses then read the clock of the same one. Its method may be called concurrently.
func PinnedBalancer() cluster.LoadBalancer { return pinned{} }

type pinned struct{}

func (pinned) OneOf(addrs []cluster.Address) cluster.Address { return slices.Min(addrs) }
