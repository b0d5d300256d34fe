package etcdleader_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest"
	"github.com/goleader/leader/internal/testserver"
)

const (
	overlapLease     = 1500 * time.Millisecond
	longOverlapLease = 4 * overlapLease
	clusterLease     = 10 * time.Second
)

func TestOverlap(t *testing.T) {
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start:    func(t testing.TB) string { return ownServer(t).Addr() },
		Dial:     dial,
		Fidelity: backendtest.Real,
		Lease:    overlapLease,
		Faults: slices.Concat(backendtest.ConnectionFaults(overlapLease, site),
			backendtest.ServerFaults(overlapLease, 0, site), []backendtest.Fault{
				{
					Name:   "ServerStoppedForHalfALease",
					Effect: backendtest.LosesSome,
					Lasts:  overlapLease / 2,
					Stage:  stopped,
				},
				{
					Name:   "ServerStopped",
					Effect: backendtest.LosesAll,
					Lasts:  overlapLease * 3 / 2,
					Stage:  stopped,
				},
			}),
	})
}

// TestOverlap_OnThreeNodes stands for what happens to the server's own leader.
func TestOverlap_OnThreeNodes(t *testing.T) {
	backendtest.Overlap(t, backendtest.OverlapConfig{
		Start:    func(t testing.TB) string { return addresses(testserver.EtcdThree(t, testserver.EtcdNew())) },
		Dial:     dial,
		Fidelity: backendtest.Real,
		Lease:    overlapLease,
		Faults: []backendtest.Fault{
			{
				Name:   "LeaderKilledAgainAndAgain",
				Effect: backendtest.LosesNone,
				Lease:  clusterLease,
				Lasts:  2 * clusterLease,
				Stage: onThree(func(t testing.TB, c *testserver.EtcdCluster) {
					t.Helper()
					leader := c.Leader(t)
					leader.Kill9(t)
					c.Leader(t)
					time.Sleep(time.Second)
					leader.Restart(t)
				}),
			},
			{
				Name:   "LeaderMovedAgainAndAgain",
				Effect: backendtest.LosesNone,
				Lease:  clusterLease,
				Lasts:  2 * clusterLease,
				Stage: onThree(func(t testing.TB, c *testserver.EtcdCluster) {
					t.Helper()
					c.MoveLeader(t)
					time.Sleep(brief)
				}),
			},
			{
				Name:   "LeaderKilledAgainAndAgainWithShortLeases",
				Effect: backendtest.LosesSome,
				Lasts:  clusterLease,
				Stage: onThree(func(t testing.TB, c *testserver.EtcdCluster) {
					t.Helper()
					leader := c.Leader(t)
					leader.Kill9(t)
					c.Leader(t)
					leader.Restart(t)
				}),
			},
			{
				Name:   "LeaderStopped",
				Effect: backendtest.LosesSome,
				Lasts:  clusterLease / 2,
				Stage: func(t testing.TB) backendtest.Stage {
					t.Helper()
					c := testserver.EtcdThree(t, testserver.EtcdNew())
					return backendtest.Stage{
						Holder:    addresses(c),
						Contender: addresses(c),
						Do: func(t testing.TB) func() {
							t.Helper()
							leader := c.Leader(t)
							leader.Stop(t)
							return func() { leader.Cont(t) }
						},
					}
				},
			},
		},
	})
}

func dial(t testing.TB, addresses string) backend.Driver {
	t.Helper()
	return open(t, connectTo(t, clientv3.Config{Endpoints: strings.Split(addresses, ",")}), nil)
}

func addresses(c *testserver.EtcdCluster) string { return strings.ReplaceAll(c.URL(), "http://", "") }

// site starts a server for a fault.
func site(t testing.TB, _ time.Duration) backendtest.Site {
	t.Helper()
	server := ownServer(t)
	return backendtest.Site{
		Server:  server.Addr(),
		Kill:    func(t testing.TB) { t.Helper(); server.Kill9(t) },
		Restart: func(t testing.TB) { t.Helper(); server.Restart(t) },
	}
}

// stopped stops the server, and continues it as the healing.
func stopped(t testing.TB) backendtest.Stage {
	t.Helper()
	server := ownServer(t)
	return backendtest.Stage{
		Holder:    server.Addr(),
		Contender: server.Addr(),
		Do: func(t testing.TB) func() {
			t.Helper()
			server.Stop(t)
			return func() { server.Cont(t) }
		},
	}
}

// onThree does something to a cluster again and again, until the healing.
func onThree(do func(t testing.TB, c *testserver.EtcdCluster)) func(t testing.TB) backendtest.Stage {
	return func(t testing.TB) backendtest.Stage {
		t.Helper()
		c := testserver.EtcdThree(t, testserver.EtcdNew())
		return backendtest.Stage{
			Holder:    addresses(c),
			Contender: addresses(c),
			Do: func(t testing.TB) func() {
				t.Helper()
				over := make(chan struct{})
				var times int
				var running sync.WaitGroup
				running.Go(func() {
					for {
						select {
						case <-over:
							return
						default:
							do(t, c)
							times++
						}
					}
				})
				return func() {
					close(over)
					running.Wait()
					t.Logf("done %d times", times)
				}
			},
		}
	}
}
