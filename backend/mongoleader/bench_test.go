package mongoleader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/benchtest"
	"github.com/goleader/leader/internal/testserver"
)

func benchDatabase(b *testing.B) *mongo.Database {
	b.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(testserver.Mongo(b).URL()))
	if err != nil {
		b.Fatal(err)
	}
	db := client.Database("leader-bench-" + rand.Text())
	b.Cleanup(func() {
		ctx := context.WithoutCancel(b.Context())
		_ = db.Drop(ctx)
		_ = client.Disconnect(ctx)
	})
	return db
}

// rawTerm makes a term of a key with the driver's own two statements, sent by the raw client.
func rawTerm(ctx context.Context, driver *Backend, key string) error {
	req := backend.Request{Key: key, Token: rand.Text(), Owner: "node-1", TTL: 30 * time.Second}
	update, err := grant(req)
	if err != nil {
		return err
	}
	filter := and(readable(req.Key), fieldSpent, doc("$ne", req.Token), "$or", isFree)
	raw, err := driver.leases.FindOneAndUpdate(ctx, filter, update, newFence).Raw()
	if err != nil {
		return err
	}
	l := &lease{backend: driver, key: key, token: req.Token, fence: uint64(raw.Lookup(fieldFence).Int64())}
	_, err = driver.hasty.UpdateOne(ctx, l.ours(), vacate(key, req.Token))
	return err
}

// bareTerm makes a term without a fence, a clock, or a memory of tokens.
func bareTerm(ctx context.Context, locks *mongo.Collection) error {
	token := rand.Text()
	err := locks.FindOneAndUpdate(ctx, doc(fieldKey, "bare", fieldToken, ""), doc("$set", doc(fieldToken, token))).Err()
	if err != nil {
		return err
	}
	free := doc("$set", doc(fieldToken, ""))
	return locks.FindOneAndUpdate(ctx, doc(fieldKey, "bare", fieldToken, token), free).Err()
}

// BenchmarkAcquireRelease compares the driver with its own two statements sent by the raw client, and with a bare pair
// of findAndModify.
func BenchmarkAcquireRelease(b *testing.B) {
	driver := New(benchDatabase(b), nil)
	locks := driver.db.Collection("locks")
	if _, err := locks.InsertOne(b.Context(), doc(fieldKey, "bare", fieldToken, "")); err != nil {
		b.Fatal(err)
	}
	if err := driver.create(b.Context(), "raw"); err != nil {
		b.Fatal(err)
	}
	var c benchtest.Contest
	c.Add("bare", func(ctx context.Context) error { return bareTerm(ctx, locks) })
	c.Add("raw", func(ctx context.Context) error { return rawTerm(ctx, driver, "raw") })
	c.Add("driver", func(ctx context.Context) error {
		req := backend.Request{Key: "driver", Token: rand.Text(), Owner: "node-1", TTL: 30 * time.Second}
		lease, err := driver.TryAcquire(ctx, req)
		if err != nil {
			return err
		}
		return lease.Release(ctx, 0)
	})
	medians := c.Run(b)
	benchtest.Ratio(b, medians, "driver", "raw")
	benchtest.Ratio(b, medians, "raw", "bare")
}

// BenchmarkHeld compares a losing attempt with its two statements sent by the raw client.
func BenchmarkHeld(b *testing.B) {
	driver := New(benchDatabase(b), nil)
	win := backend.Request{Key: "held", Token: rand.Text(), Owner: "node-1", TTL: time.Hour}
	if _, err := driver.TryAcquire(b.Context(), win); err != nil {
		b.Fatal(err)
	}
	request := func() backend.Request {
		return backend.Request{Key: "held", Token: rand.Text(), Owner: "node-2", TTL: 30 * time.Second}
	}
	var c benchtest.Contest
	c.Add("raw", func(ctx context.Context) error {
		req := request()
		update, err := grant(req)
		if err != nil {
			return err
		}
		filter := and(readable(req.Key), fieldSpent, doc("$ne", req.Token), "$or", isFree)
		if err := driver.leases.FindOneAndUpdate(ctx, filter, update, newFence).Err(); !errors.Is(err, mongo.ErrNoDocuments) {
			return fmt.Errorf("not refused: %w", err)
		}
		cursor, err := driver.leases.Aggregate(ctx, bson.A{doc("$match", doc(fieldKey, req.Key)), shownLease})
		if err != nil {
			return err
		}
		var found []bson.Raw
		return cursor.All(ctx, &found)
	})
	c.Add("driver", func(ctx context.Context) error {
		if _, err := driver.TryAcquire(ctx, request()); !errors.Is(err, backend.ErrHeld) {
			return fmt.Errorf("not refused: %w", err)
		}
		return nil
	})
	c.Add("look", func(ctx context.Context) error {
		_, err := driver.Inspect(ctx, "held")
		return err
	})
	benchtest.Ratio(b, c.Run(b), "driver", "raw")
}

// BenchmarkGroup compares a term of a free slot, in half-taken groups of several sizes, with one of a single lease.
func BenchmarkGroup(b *testing.B) {
	driver := New(benchDatabase(b), nil)
	request := func(key string) backend.Request {
		return backend.Request{Key: key, Token: rand.Text(), Owner: "node-1", TTL: time.Hour}
	}
	for _, n := range []int{3, 10, 100} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			group := "group-" + rand.Text()
			for range n / 2 {
				if _, _, err := driver.TryAcquireSlot(b.Context(), request(group), n); err != nil {
					b.Fatal(err)
				}
			}
			var c benchtest.Contest
			c.Add("single", func(ctx context.Context) error {
				lease, err := driver.TryAcquire(ctx, request("single"))
				if err != nil {
					return err
				}
				return lease.Release(ctx, 0)
			})
			c.Add("group", func(ctx context.Context) error {
				lease, _, err := driver.TryAcquireSlot(ctx, request(group), n)
				if err != nil {
					return err
				}
				return lease.Release(ctx, 0)
			})
			benchtest.Ratio(b, c.Run(b), "group", "single")
		})
	}
}
