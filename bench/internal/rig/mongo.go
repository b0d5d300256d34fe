package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	mongooptions "go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/mongoleader"
	"github.com/goleader/leader/bench/internal/contest"
	"github.com/goleader/leader/internal/testserver"
)

// mongoDatabase is where everybody works.
const mongoDatabase = "leader_bench"

// Mongo is a MongoDB, or what stands in for one, with everybody who works on it.
type Mongo struct {
	server *testserver.Server
	db     *mongo.Database
}

// NewMongo starts the stand-in for a MongoDB; a server that [testserver.MongoURLEnv] names is taken as it is.
func NewMongo(t testserver.TB) *Mongo {
	t.Helper()
	m := &Mongo{server: testserver.Mongo(t)}
	m.db = m.dial(t, nil)
	return m
}

func (m *Mongo) dial(t testserver.TB, monitor *event.CommandMonitor) *mongo.Database {
	t.Helper()
	client, err := mongo.Connect(mongooptions.Client().ApplyURI(m.server.URL()).SetMonitor(monitor))
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	return client.Database(mongoDatabase)
}

func (m *Mongo) driver(t testserver.TB, db *mongo.Database) *mongoleader.Backend {
	t.Helper()
	d := mongoleader.New(db, nil)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// Run returns a RunIfLeader.
func (m *Mongo) Run(t testserver.TB) Op { return run(newElector(t, m.driver(t, m.db)), "run") }

// Skip returns a RunIfLeader while another holds the name.
func (m *Mongo) Skip(t testserver.TB) Op {
	hold(t, newElector(t, m.driver(t, m.db)), "skip")
	return skip(newElector(t, m.driver(t, m.db)), "skip", leader.Contended)
}

// Handoff returns the hand-off between two electors, each with a client of its own. Where the deployment has no change
// streams a waiter polls.
func (m *Mongo) Handoff(t testserver.TB) contest.Way {
	return newRelay(t, m.driver(t, m.dial(t, nil)), m.driver(t, m.dial(t, nil)), 0).pass
}

// Floor returns the commands of the driver for a RunIfLeader, by the raw client.
func (m *Mongo) Floor(t testserver.TB) Op {
	sent := m.record(t, "floor", func(d backend.Driver, req backend.Request) (uint64, error) {
		l, err := d.TryAcquire(t.Context(), req)
		if err != nil {
			return 0, err
		}
		return l.Fence(), l.Release(t.Context(), 0)
	})
	return func(ctx context.Context) error {
		token := rand.Text()
		var won struct {
			Value struct {
				Fence int64 `bson:"fence"`
			} `bson:"value"`
		}
		for _, c := range sent {
			result := m.db.RunCommand(ctx, c.with(token, won.Value.Fence))
			if err := result.Err(); err != nil {
				return err
			}
			if won.Value.Fence > 0 {
				continue
			}
			if err := result.Decode(&won); err != nil || won.Value.Fence == 0 {
				return errors.Join(errRefused, err)
			}
		}
		return nil
	}
}

// SkipFloor returns the commands of the driver for an acquisition, while another holds the key, by the raw client.
func (m *Mongo) SkipFloor(t testserver.TB) Op {
	const key = "skip floor"
	hold(t, newElector(t, m.driver(t, m.db)), key)
	sent := m.record(t, key, func(d backend.Driver, req backend.Request) (uint64, error) {
		_, err := d.TryAcquire(t.Context(), req)
		if errors.Is(err, backend.ErrHeld) {
			err = nil
		}
		return 0, err
	})
	return func(ctx context.Context) error {
		token := rand.Text()
		for _, c := range sent {
			if err := m.db.RunCommand(ctx, c.with(token, 0)).Err(); err != nil {
				return err
			}
		}
		return nil
	}
}

// Naive returns a findAndModify that takes a lock which has run out, and one that ends it, by a client's clock. They give
// no fence.
func (m *Mongo) Naive(t testserver.TB) Op {
	locks := m.db.Collection("naive")
	past := bson.D{{Key: "$set", Value: bson.D{{Key: "until", Value: time.Unix(0, 0)}}}}
	upsert := mongooptions.UpdateOne().SetUpsert(true)
	if _, err := locks.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "run"}}, past, upsert); err != nil {
		t.Fatalf("%v", err)
	}
	return func(ctx context.Context) error {
		token, now := rand.Text(), time.Now()
		free := bson.D{{Key: "_id", Value: "run"}, {Key: "until", Value: bson.D{{Key: "$lte", Value: now}}}}
		own := bson.D{{Key: "_id", Value: "run"}, {Key: "token", Value: token}}
		take := bson.D{{Key: "$set", Value: bson.D{{Key: "token", Value: token}, {Key: "until", Value: now.Add(lease)}}}}
		end := bson.D{{Key: "$set", Value: bson.D{{Key: "until", Value: now}}}}
		return errors.Join(locks.FindOneAndUpdate(ctx, free, take).Err(), locks.FindOneAndUpdate(ctx, own, end).Err())
	}
}

// mongoCommand is one of the driver's, with the token and the fence that were recorded.
type mongoCommand struct {
	body  bson.D
	token string
	fence int64
}

// with returns the command with another token and fence.
func (c *mongoCommand) with(token string, fence int64) bson.D {
	body, _ := c.replace(c.body, token, fence).(bson.D)
	return body
}

func (c *mongoCommand) replace(v any, token string, fence int64) any {
	switch v := v.(type) {
	case bson.D:
		d := slices.Clone(v)
		for i := range d {
			d[i].Value = c.replace(d[i].Value, token, fence)
		}
		return d
	case bson.A:
		a := slices.Clone(v)
		for i := range a {
			a[i] = c.replace(a[i], token, fence)
		}
		return a
	case string:
		if v == c.token {
			return token
		}
	case int64:
		if v == c.fence {
			return fence
		}
	}
	return v
}

// record returns the commands that a driver sends for a call, after the same has been made once. The call returns the
// fence, 0 if there is none.
func (m *Mongo) record(
	t testserver.TB, key string, call func(backend.Driver, backend.Request) (uint64, error),
) []mongoCommand {
	t.Helper()
	added := []string{"lsid", "$db", "$clusterTime", "txnNumber", "$readPreference", "maxTimeMS"} // by the client itself
	var mu sync.Mutex
	var sent []bson.D
	monitor := &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		var body bson.D
		if err := bson.Unmarshal(e.Command, &body); err != nil {
			return // then there is one too few
		}
		body = slices.DeleteFunc(body, func(e bson.E) bool {
			return slices.Contains(added, e.Key)
		})
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, body)
	}}
	d := m.driver(t, m.dial(t, monitor))
	req := backend.Request{Key: key, Token: rand.Text(), Owner: owner, TTL: lease}
	_, err := call(d, req)
	mu.Lock()
	sent = nil
	mu.Unlock()
	req.Token = rand.Text()
	var fence uint64
	if err == nil {
		fence, err = call(d, req)
	}
	mu.Lock()
	defer mu.Unlock()
	if err == nil && len(sent) != 2 {
		err = fmt.Errorf("%d commands, not 2", len(sent))
	}
	if err != nil {
		t.Fatalf("what the driver sends: %v", err)
	}
	commands := make([]mongoCommand, len(sent))
	for i, body := range sent {
		commands[i] = mongoCommand{body, req.Token, int64(fence)}
	}
	return commands
}
