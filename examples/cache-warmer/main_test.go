package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/logger"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/hazelcastleader"
	"github.com/goleader/leader/examples/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

// watchdog is how long a test waits for what must happen in seconds.
const watchdog = time.Minute

const cacheName = "cache-warmer"

func TestCacheWarmer_AProcessIsKilled_OthersTakeItsPartitionsOver(t *testing.T) {
	client, addr := start(t)
	program := exampletest.Build(t)
	f := &fleet{processes: map[string]*exampletest.Process{}}
	for _, id := range []string{"a", "b", "c"} {
		f.processes[id] = exampletest.Start(t, program, "-hazelcast", addr, "-node", id, "-lease", "1s", "-every", "6s",
			"-load", "100ms", "-lives", "2m") // slow, so that one can be killed at work
	}
	first := f.generations(t, 1)[0]
	f.checkOnce(t, first)
	workers := map[string]bool{}
	for _, d := range f.done(first) {
		workers[d.node] = true
	}
	if len(workers) < 2 {
		t.Errorf("%v warmed all partitions, want them shared", workers)
	}

	killed := f.killAtWork(t, "b", first)
	f.awaitAll(t, killed.generation)
	f.checkOnce(t, killed.generation)
	checkMarks(t, client, killed.generation)
	for _, d := range f.done(killed.generation) {
		if d.partition == killed.partition && d.node == killed.node {
			t.Errorf("partition %d was warmed by %s, which had been killed", d.partition, d.node)
		}
		if d.partition == killed.partition {
			t.Logf("%s took partition %d over", d.node, d.partition)
		}
	}
}

func TestCacheWarmer_BadFlags_AreRefused(t *testing.T) {
	program := exampletest.Build(t)
	for _, args := range [][]string{{"-partitions", "0"}, {"-items", "0"}, {"-every", "1s", "-lease", "2s"}} {
		p := exampletest.Start(t, program, args...)
		if code := p.Wait(t); code != 1 {
			t.Errorf("%v: exit code %d, want 1", args, code)
		}
	}
}

// The mark of a process that was stopped, and has been replaced, is refused.
func TestCache_Mark_RefusesAnOlderFence(t *testing.T) {
	client, _ := start(t)
	entries, err := client.GetMap(t.Context(), cacheName)
	if err != nil {
		t.Fatal(err)
	}
	later := stamp{generation: 1, fence: 1 << 62, node: "later"}
	if err := entries.Set(t.Context(), markKey(3), later.String()); err != nil {
		t.Fatal(err)
	}
	b := hazelcastleader.New(client, nil)
	defer b.Close()
	elector, err := leader.New(b)
	if err != nil {
		t.Fatal(err)
	}
	result, err := elector.RunIfLeader(t.Context(), "job", func(ctx context.Context) error {
		return cache{entries}.mark(ctx, 3, time.Now())
	})
	if err != nil || !errors.Is(result.Err, errStale) {
		t.Errorf("%v, %v, want %v", result, err, errStale)
	}
	if err := (cache{entries}).mark(t.Context(), 4, time.Now()); !errors.Is(err, errOver) {
		t.Errorf("without a lease: %v, want %v", err, errOver)
	}
}

// start starts a Hazelcast, and returns a client and the address. What a given one has of the cache is deleted.
func start(t *testing.T) (*hazelcast.Client, string) {
	t.Helper()
	addr := testserver.Hazelcast(t).Addr()
	var config hazelcast.Config
	config.Logger.Level = logger.OffLevel
	config.Cluster.Network.Addresses = []string{addr}
	hazelcastleader.Configure(&config)
	client, err := hazelcast.StartNewClientWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Shutdown(context.WithoutCancel(t.Context())) })
	entries, err := client.GetMap(t.Context(), cacheName)
	if err == nil {
		err = entries.Clear(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return client, addr
}

// deed is that a process begins to warm a partition, or has done it.
type deed struct {
	node       string
	partition  int
	generation int64
}

// fleet is the processes.
type fleet struct {
	processes map[string]*exampletest.Process
}

var (
	begun = regexp.MustCompile(`(\w+) +warms partition (\d+) of (\d+)\n`)
	ended = regexp.MustCompile(`(\w+) +has warmed partition (\d+) of (\d+)\n`)
	whole = regexp.MustCompile(`generation (\d+) is warm\n`)
)

func deeds(t testing.TB, text string, what *regexp.Regexp) []deed {
	t.Helper()
	var list []deed
	for _, m := range what.FindAllStringSubmatch(text, -1) {
		partition, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		generation, err := strconv.ParseInt(m[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, deed{m[1], partition, generation})
	}
	return list
}

// done is what the processes have done in a generation.
func (f *fleet) done(generation int64) []deed {
	var list []deed
	for _, p := range f.processes {
		for _, m := range ended.FindAllStringSubmatch(p.Output(), -1) {
			if m[3] == strconv.FormatInt(generation, 10) {
				partition, _ := strconv.Atoi(m[2]) // The expression lets digits alone pass.
				list = append(list, deed{m[1], partition, generation})
			}
		}
	}
	return list
}

// generations waits until n of them are warm that began when all processes ran, and returns those.
func (f *fleet) generations(t testing.TB, n int) []int64 {
	t.Helper()
	began := time.Now().Unix()
	for end := time.Now().Add(watchdog); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var list []int64
		for _, p := range f.processes {
			for _, m := range whole.FindAllStringSubmatch(p.Output(), -1) {
				g, err := strconv.ParseInt(m[1], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				if g > began && !slices.Contains(list, g) {
					list = append(list, g)
				}
			}
		}
		if len(list) >= n {
			return list
		}
	}
	t.Fatalf("there are not %d warm generations", n)
	return nil
}

// killAtWork kills a process while it warms a partition of a generation after the one given, and returns what it was at.
func (f *fleet) killAtWork(t testing.TB, id string, after int64) deed {
	t.Helper()
	p := f.processes[id]
	for end := time.Now().Add(watchdog); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		all := deeds(t, p.Output(), begun)
		if len(all) == 0 || all[len(all)-1].generation <= after {
			continue
		}
		last := all[len(all)-1]
		if slices.Contains(f.done(last.generation), last) {
			continue
		}
		p.Kill(t)
		if !slices.Contains(f.done(last.generation), last) {
			return last
		}
		t.Fatalf("%s had just done its work when it was killed: %+v", id, last)
	}
	t.Fatalf("%s does not work", id)
	return deed{}
}

// awaitAll waits until each partition is warm in a generation.
func (f *fleet) awaitAll(t testing.TB, generation int64) {
	t.Helper()
	for end := time.Now().Add(watchdog); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		warm := map[int]bool{}
		for _, d := range f.done(generation) {
			warm[d.partition] = true
		}
		if len(warm) == *partitions {
			return
		}
	}
	t.Fatalf("generation %d does not get warm: %v", generation, f.done(generation))
}

// checkOnce checks that each partition was warmed once in a generation.
func (f *fleet) checkOnce(t testing.TB, generation int64) {
	t.Helper()
	times := map[int]int{}
	for _, d := range f.done(generation) {
		times[d.partition]++
	}
	if len(times) != *partitions {
		t.Errorf("in generation %d the partitions %v were warmed, want %d", generation, times, *partitions)
	}
	for p, n := range times {
		if n != 1 {
			t.Errorf("partition %d was warmed %d times in generation %d", p, n, generation)
		}
	}
}

// checkMarks checks what the cache has of a generation, or of a later one that has begun.
func checkMarks(t testing.TB, client *hazelcast.Client, generation int64) {
	t.Helper()
	entries, err := client.GetMap(t.Context(), cacheName)
	if err != nil {
		t.Fatal(err)
	}
	for p := range *partitions {
		keys := []string{markKey(p)}
		for i := range *items {
			keys = append(keys, itemKey(p, i))
		}
		for _, key := range keys {
			text, err := entries.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if s, err := parseStamp(fmt.Sprint(text)); err != nil || s.generation < generation || s.fence == 0 {
				t.Errorf("%s is of %v, want generation %d: %v", key, text, generation, err)
			}
		}
	}
}
