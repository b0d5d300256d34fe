package main

import (
	"context"
	"database/sql"
	"net/http/httptest"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// open opens a table in a file, an object in a store of this process, and what the flags name. closeAll is to be called
// in any case.
func open(ctx context.Context, file string) (list []named, closeAll func(), err error) {
	var closers []func()
	closeAll = func() {
		for _, c := range closers {
			c()
		}
	}
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		return nil, closeAll, err
	}
	closers = append(closers, func() { _ = db.Close() })
	if err := createTable(ctx, db); err != nil {
		return nil, closeAll, err
	}
	server := httptest.NewServer(&objectStore{})
	closers = append(closers, server.Close)
	list = []named{{"table", table{db}}, {"object", object{server.Client(), server.URL + "/report"}}}
	if *redisAddress != "" {
		client := redis.NewClient(&redis.Options{Addr: *redisAddress})
		closers = append(closers, func() { _ = client.Close() })
		list = append(list, named{"redis", redisKey{client}})
	}
	if *mongoURL != "" {
		client, err := mongo.Connect(options.Client().ApplyURI(*mongoURL))
		if err != nil {
			return nil, closeAll, err
		}
		closers = append(closers, func() { _ = client.Disconnect(context.WithoutCancel(ctx)) })
		list = append(list, named{"document", document{client.Database("example").Collection("reports")}})
	}
	return list, closeAll, nil
}
