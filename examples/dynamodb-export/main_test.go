package main

import (
	"context"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/dynamoleader"
	"github.com/goleader/leader/examples/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

// watchdog is how long a test waits for what must happen in seconds.
const watchdog = time.Minute

// start starts a server and returns a table with orders on it.
func start(t *testing.T, count int) (url string, o orders) {
	t.Helper()
	server := testserver.Dynamo(t)
	if server.Owned() {
		for name, value := range map[string]string{
			"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "eu-central-1",
		} {
			t.Setenv(name, value)
		}
	}
	*endpoint = server.URL()
	client, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o = orders{client: client, table: "orders-" + strconv.FormatInt(time.Now().UnixNano(), 10)}
	if err := errors.Join(dynamoleader.New(client, nil).Migrate(t.Context()), o.make(t.Context(), count)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the server may be one that lives on
		_, _ = client.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: &o.table})
	})
	return server.URL(), o
}

func TestDynamoDBExport_TheExporterIsKilled_AnotherGoesOn(t *testing.T) {
	const count = 300
	url, o := start(t, count)
	program, to := exampletest.Build(t), t.TempDir()
	processes := make(map[string]*exampletest.Process)
	for _, id := range []string{"a", "b"} {
		processes[id] = exampletest.Start(t, program, "-url", url, "-table", o.table, "-folder", to, "-node", id,
			"-pace", "100ms", "-lives", "2m")
	}

	dead := await(t, o, func(last int, _ string) bool { return last >= 5*batchSize })
	processes[dead.node].Kill(t)
	killed := current(t, o)
	alive := map[string]string{"a": "b", "b": "a"}[dead.node]
	processes[alive].Await(t, `goes on after order (\d+)`)
	end := await(t, o, func(last int, _ string) bool { return last == count })

	if end.node != alive || end.fence <= dead.fence {
		t.Errorf("%s ended with fence %d, want %s, and more than %d", end.node, end.fence, alive, dead.fence)
	}
	if killed.last >= count {
		t.Errorf("the process that was killed had exported all %d orders", killed.last)
	}
	checkFiles(t, to, count)
}

// A file with fewer orders could replace the larger one of a later leader.
func TestExporter_ABatchThatIsNotFull_Waits(t *testing.T) {
	_, o := start(t, batchSize+1)
	elector, err := leader.New(dynamoleader.New(o.client, nil))
	if err != nil {
		t.Fatal(err)
	}
	held, err := elector.Acquire(t.Context(), "test", leader.WithWaitTime(watchdog))
	if err != nil {
		t.Fatal(err)
	}
	e := exporter{orders: o, folder: t.TempDir()}
	ctx, cancel := context.WithCancel(held.Context())
	var exports sync.WaitGroup
	defer func() {
		cancel()
		exports.Wait()
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	exports.Go(func() {
		if err := e.export(ctx, held); !errors.Is(err, context.Canceled) {
			t.Errorf("export: %v", err)
		}
	})
	await(t, o, func(last int, _ string) bool { return last == batchSize })
	time.Sleep(2 * period) // so that it has looked again, and would have written what there is
	if err := o.make(t.Context(), 2*batchSize); err != nil {
		t.Fatal(err)
	}
	await(t, o, func(last int, _ string) bool { return last == 2*batchSize })
	checkFiles(t, e.folder, 2*batchSize)
}

// checkFiles fails unless each order is in one file, once, and each file is full.
func checkFiles(t *testing.T, folder string, count int) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "orders-*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	next := 1
	for _, path := range paths { // in the order of their names
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(f).ReadAll()
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if len(rows) != batchSize {
			t.Errorf("%s has %d orders, want %d", filepath.Base(path), len(rows), batchSize)
		}
		for _, row := range rows {
			if row[0] != strconv.Itoa(next) || row[1] != strconv.Itoa(next*100) {
				t.Errorf("%s has %v, want order %d", filepath.Base(path), row, next)
			}
			next++
		}
	}
	if next != count+1 {
		t.Errorf("%d files have %d orders, want %d", len(paths), next-1, count)
	}
}

func TestOrders_AFormerLeader_DoesNotMoveTheCheckpoint(t *testing.T) {
	_, o := start(t, 1)
	elector, err := leader.New(dynamoleader.New(o.client, nil))
	if err != nil {
		t.Fatal(err)
	}
	var terms []*leader.Lease
	for range 2 {
		l, err := elector.Acquire(t.Context(), "test", leader.WithWaitTime(watchdog))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		terms = append(terms, l)
	}
	for _, last := range []int{10, 20} { // a leader moves it as often as it likes
		if err := o.setCheckpoint(t.Context(), terms[1], last); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.setCheckpoint(t.Context(), terms[0], 30); !errors.Is(err, errStale) {
		t.Errorf("the former leader: %v, want errStale", err)
	}
	if last, err := o.checkpoint(t.Context()); err != nil || last != 20 {
		t.Errorf("checkpoint %d, %v", last, err)
	}
}

// progress is the checkpoint and who set it.
type progress struct {
	last  int
	fence uint64
	node  string
}

// await waits until the checkpoint is as it should be.
func await(t *testing.T, o orders, done func(last int, node string) bool) progress {
	t.Helper()
	var p progress
	for end := time.Now().Add(watchdog); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if p = current(t, o); done(p.last, p.node) {
			return p
		}
	}
	t.Fatalf("the checkpoint is still %+v", p)
	return p
}

// current reads the checkpoint.
func current(t *testing.T, o orders) progress {
	t.Helper()
	out, err := o.client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: &o.table, Key: checkpointKey, ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Item) == 0 {
		return progress{}
	}
	var p progress
	if p.last, err = integer(out.Item, "last"); err != nil {
		t.Fatal(err)
	}
	fence, ok := out.Item["fence"].(*types.AttributeValueMemberN)
	who, named := out.Item["node"].(*types.AttributeValueMemberS)
	if !ok || !named {
		t.Fatalf("the checkpoint is %v", out.Item)
	}
	if p.fence, err = strconv.ParseUint(fence.Value, 10, 64); err != nil {
		t.Fatal(err)
	}
	p.node = who.Value
	return p
}
