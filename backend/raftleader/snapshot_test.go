package raftleader_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader"
)

func snapshots(every time.Duration, threshold, trailing uint64) change {
	return func(_ int, c *raftleader.Config) { c.WithSnapshots(every, threshold, trailing) }
}

// terms makes so many terms of some keys, several at one time.
func terms(t testing.TB, b *raftleader.Backend, n int) {
	t.Helper()
	const beside = 50
	var running sync.WaitGroup
	for worker := range beside {
		running.Go(func() {
			key := fmt.Sprintf("job %d", worker)
			for i := range n / beside {
				var l backend.Lease
				err := settled(t, func(ctx context.Context) error {
					var err error
					l, err = b.TryAcquire(ctx, request(key, fmt.Sprintf("token %d", i)))
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
				released(t, l)
			}
		})
	}
	running.Wait()
}

func first(t testing.TB, b *raftleader.Backend) uint64 {
	t.Helper()
	log, _ := b.Stores()
	i, err := log.FirstIndex()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// latest returns the newest snapshot of a node, nil if it has none.
func latest(t testing.TB, b *raftleader.Backend) *raft.SnapshotMeta {
	t.Helper()
	_, store := b.Stores()
	list, err := store.List()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

func TestBackend_ANodeThatWasAway_CatchesUpByASnapshot(t *testing.T) {
	for _, kind := range []string{"on disk", "in memory"} {
		t.Run(kind, func(t *testing.T) {
			changes := []change{snapshots(20*time.Millisecond, 64, 16)}
			if kind == "on disk" {
				changes = append(changes, durable(t))
			}
			c := startNodes(t, 3, changes...)
			away := c.follower()
			last := c.list[away].Raft().LastIndex()
			c.kill(away)
			leader := c.list[c.leader()]
			l := acquire(t, leader, "kept", "a")
			released(t, acquire(t, leader, "spent", "b"))
			terms(t, leader, 500)
			eventually(t, "the log has been cut", func() bool { return first(t, leader) > last+1 })
			b := c.start(away)
			eventually(t, "the node has caught up", func() bool {
				return b.Machine().Applied() >= leader.Machine().Applied()
			})
			if s := latest(t, b); s == nil || s.Index <= last {
				t.Errorf("snapshot %+v, want one behind entry %d", s, last)
			}
			if h := b.Machine().Holder("kept", 0); h.Fence != l.Fence() || h.Owner != "owner of a" {
				t.Errorf("got %+v, want the lease of before", h)
			}
			// It can lead with what it has.
			c.complete()
			c.moveTo(away)
			renewed(t, b.Bound(l))
			if _, err := b.TryAcquire(t.Context(), request("spent", "b")); err == nil {
				t.Error("a spent token is forgotten")
			}
		})
	}
}

func TestBackend_RestartFromASnapshot_KeepsLeasesAndTime(t *testing.T) {
	c := startNodes(t, 1, durable(t), snapshots(20*time.Millisecond, 64, 16))
	l := acquire(t, c.list[0], "kept", "a")
	terms(t, c.list[0], 500)
	eventually(t, "there is a snapshot", func() bool { return latest(t, c.list[0]) != nil })
	before := c.list[0].Machine().Now()
	c.kill(0)
	b := c.start(0)
	renewed(t, b.Bound(l))
	if now := b.Machine().Now(); now < before {
		t.Errorf("the time of the log went back from %d to %d", before, now)
	}
	if next := acquire(t, b, "job 1", "z"); next.Fence() <= l.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), l.Fence())
	}
}

func TestBackend_TenThousandTerms_KeepMemoryAndDiskBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	const many, every, most = 10_000, 500, 1000
	patient := func(_ int, c *raftleader.Config) { c.ElectionTimeout = 5 * time.Second } // the disk is busy
	c := startNodes(t, 3, durable(t), patient, snapshots(50*time.Millisecond, every, every))
	leader := c.list[c.leader()]
	terms(t, leader, most)
	before := heap()
	terms(t, leader, many)
	for i, b := range c.list {
		eventually(t, "the log is cut", func() bool {
			return b.Raft().LastIndex()-first(t, b) < 3*every
		})
		if size := folder(t, c.configs[i].Dir); size > 8<<20 {
			t.Errorf("the folder of node %d has %d bytes", i, size)
		}
	}
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("%d bytes more in memory after %d terms", grown, many)
	}
}

func heap() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func folder(t testing.TB, dir string) int64 {
	t.Helper()
	var size int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // an old snapshot, just removed
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}
