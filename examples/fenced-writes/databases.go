package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	_ "modernc.org/sqlite" // the driver of the table

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/mongoleader"
)

// table is one row of an SQL database. The condition is part of the statement that writes.
type table struct{ db *sql.DB }

func createTable(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, `CREATE TABLE report (id INTEGER PRIMARY KEY, body TEXT NOT NULL, fence INTEGER NOT NULL)`)
	if err == nil {
		_, err = db.ExecContext(ctx, `INSERT INTO report VALUES (1, '', 0)`)
	}
	return err
}

func (t table) write(ctx context.Context, held *leader.Lease, text string) error {
	fence := int64(held.Info().Fence) //nolint:gosec // a fence fits, it starts at a time in µs
	result, err := t.db.ExecContext(ctx,
		`UPDATE report SET body = ?, fence = ? WHERE id = 1 AND fence <= ?`, text, fence, fence)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(errStale, err)
	}
	return nil
}

func (t table) read(ctx context.Context) (text string, err error) {
	err = t.db.QueryRowContext(ctx, `SELECT body FROM report WHERE id = 1`).Scan(&text)
	return text, err
}

// redisKey is a hash in a Redis. A script compares and writes in one step. Lua's numbers hold a fence exactly up to 2^53,
// which one that starts at a time in µs does not reach.
type redisKey struct{ client *redis.Client }

var writeFenced = redis.NewScript(`
local last = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < last then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'body', ARGV[2])
return 1`)

func (k redisKey) write(ctx context.Context, held *leader.Lease, text string) error {
	written, err := writeFenced.Run(ctx, k.client, []string{"report"}, held.Info().Fence, text).Bool()
	if err == nil && !written {
		return errStale
	}
	return err
}

func (k redisKey) read(ctx context.Context) (string, error) {
	return k.client.HGet(ctx, "report", "body").Result()
}

// document is one of MongoDB. Fenced adds the condition to the filter of the update; the unique id does the rest.
type document struct{ reports *mongo.Collection }

func (d document) write(ctx context.Context, held *leader.Lease, text string) error {
	filter := mongoleader.Fenced(held, "fence", bson.D{{Key: "_id", Value: "report"}})
	report := bson.D{{Key: "body", Value: text}, {Key: "fence", Value: mongoleader.Fence(held)}}
	update := bson.D{{Key: "$set", Value: report}}
	_, err := d.reports.UpdateOne(ctx, filter, update, options.UpdateOne().SetUpsert(true))
	if mongo.IsDuplicateKeyError(err) {
		return errStale
	}
	return err
}

func (d document) read(ctx context.Context) (string, error) {
	var r struct{ Body string }
	err := d.reports.FindOne(ctx, bson.D{{Key: "_id", Value: "report"}}).Decode(&r)
	return r.Body, err
}
