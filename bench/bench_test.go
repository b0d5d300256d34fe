package bench

import (
	"testing"

	"github.com/goleader/leader/bench/internal/rig"
)

// measure lets the benchmark's loop do op, once it is warm.
func measure(b *testing.B, op rig.Op) {
	b.Helper()
	b.ReportAllocs()
	ctx := b.Context()
	if err := op(ctx); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := op(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLocalRun(b *testing.B) { measure(b, rig.LocalRun(b)) }

func BenchmarkLocalGroupRun(b *testing.B) { measure(b, rig.LocalGroupRun(b, 3)) }

func BenchmarkWithCancelCause(b *testing.B) { measure(b, rig.CancelCause) }

func BenchmarkRedisRun(b *testing.B) { measure(b, rig.NewRedis(b).Run(b)) }

func BenchmarkRedisFloor(b *testing.B) { measure(b, rig.NewRedis(b).Floor(b)) }

func BenchmarkRedisSetnx(b *testing.B) { measure(b, rig.NewRedis(b).Setnx()) }

func BenchmarkRedisRedsync(b *testing.B) { measure(b, rig.NewRedis(b).Redsync()) }

func BenchmarkRedisRedislock(b *testing.B) { measure(b, rig.NewRedis(b).Redislock()) }

func BenchmarkRedisRueidislock(b *testing.B) { measure(b, rig.NewRedis(b).Rueidislock(b)) }

func BenchmarkRedisSkip(b *testing.B) { measure(b, rig.NewRedis(b).Skip(b)) }

func BenchmarkRedisSkipFloor(b *testing.B) { measure(b, rig.NewRedis(b).SkipFloor(b)) }

func BenchmarkRedisGroupRun(b *testing.B) { measure(b, rig.NewRedis(b).GroupRun(b, 3)) }

func BenchmarkRedisStrategicRun(b *testing.B) { measure(b, rig.NewRedis(b).StrategicRun(b)) }

func BenchmarkRedisRunKeyRun(b *testing.B) { measure(b, rig.NewRedis(b).RunKeyRun(b)) }

func BenchmarkRedisListing(b *testing.B) { measure(b, rig.NewRedis(b).Listing(b, 1000)) }

func BenchmarkSQLiteRun(b *testing.B) { measure(b, rig.NewSQLite(b).Run(b)) }

func BenchmarkSQLiteFloor(b *testing.B) { measure(b, rig.NewSQLite(b).Floor(b)) }

func BenchmarkSQLiteStatements(b *testing.B) { measure(b, rig.NewSQLite(b).Statements(b)) }

func BenchmarkSQLiteSkip(b *testing.B) { measure(b, rig.NewSQLite(b).Skip(b)) }

func BenchmarkSQLiteSkipFloor(b *testing.B) { measure(b, rig.NewSQLite(b).SkipFloor(b)) }

func BenchmarkEtcdRun(b *testing.B) { measure(b, rig.NewEtcd(b).Run(b)) }

func BenchmarkEtcdFloor(b *testing.B) { measure(b, rig.NewEtcd(b).Floor(b)) }

func BenchmarkEtcdMutex(b *testing.B) { measure(b, rig.NewEtcd(b).Mutex(b)) }

func BenchmarkEtcdElection(b *testing.B) { measure(b, rig.NewEtcd(b).Election(b)) }

func BenchmarkEtcdSessionMutex(b *testing.B) { measure(b, rig.NewEtcd(b).SessionMutex()) }

func BenchmarkEtcdSkip(b *testing.B) { measure(b, rig.NewEtcd(b).Skip(b)) }

func BenchmarkEtcdSkipFloor(b *testing.B) { measure(b, rig.NewEtcd(b).SkipFloor(b)) }

func BenchmarkConsulRun(b *testing.B) { measure(b, rig.NewConsul(b).Run(b)) }

func BenchmarkConsulFloor(b *testing.B) { measure(b, rig.NewConsul(b).Floor(b)) }

func BenchmarkConsulLock(b *testing.B) { measure(b, rig.NewConsul(b).Lock(b)) }

func BenchmarkConsulSkip(b *testing.B) { measure(b, rig.NewConsul(b).Skip(b)) }

func BenchmarkConsulSkipFloor(b *testing.B) { measure(b, rig.NewConsul(b).SkipFloor(b)) }

func BenchmarkZooKeeperRun(b *testing.B) { measure(b, rig.NewZooKeeper(b).Run(b)) }

func BenchmarkZooKeeperFloor(b *testing.B) { measure(b, rig.NewZooKeeper(b).Floor(b)) }

func BenchmarkZooKeeperLock(b *testing.B) { measure(b, rig.NewZooKeeper(b).Lock()) }

func BenchmarkZooKeeperSkip(b *testing.B) { measure(b, rig.NewZooKeeper(b).Skip(b)) }

func BenchmarkZooKeeperSkipFloor(b *testing.B) { measure(b, rig.NewZooKeeper(b).SkipFloor(b)) }

func BenchmarkKubernetesRun(b *testing.B) { measure(b, rig.NewKubernetes(b).Run(b)) }

func BenchmarkKubernetesFloor(b *testing.B) { measure(b, rig.NewKubernetes(b).Floor(b)) }

func BenchmarkKubernetesClientGo(b *testing.B) { measure(b, rig.NewKubernetes(b).ClientGo()) }

func BenchmarkKubernetesSkip(b *testing.B) { measure(b, rig.NewKubernetes(b).Skip(b)) }

func BenchmarkKubernetesSkipFloor(b *testing.B) { measure(b, rig.NewKubernetes(b).SkipFloor(b)) }
