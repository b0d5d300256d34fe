package store

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend/redisleader"
)

const redisRights = "the commands EVALSHA, EVAL, INFO, SUBSCRIBE, SCAN, the keys leader:* and the channels leader:*: " +
	"ACL SETUSER name +eval +evalsha +@hash +set +del +pexpire +time +info +publish +subscribe +scan ~leader:* &leader:*"

// openRedis opens one server, with addr a cluster, and with master_name what sentinels tell.
func openRedis(_ context.Context, l *Location, _ Options) (*Store, error) {
	options := &redisleader.Options{Prefix: l.Own("prefix")}
	client, err := redisClient(l)
	if err != nil {
		return nil, err
	}
	b := redisleader.New(client, options)
	s := &Store{Driver: b, Rights: redisRights}
	s.closes(client.Close)
	s.closes(b.Close)
	return s, nil
}

func redisClient(l *Location) (redis.UniversalClient, error) {
	switch {
	case l.query.Has("master_name"):
		o, err := redis.ParseFailoverURL(l.URL())
		if err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled = true
		return redis.NewFailoverClient(o), nil
	case l.query.Has("addr"):
		o, err := redis.ParseClusterURL(l.URL())
		if err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled = true
		return redis.NewClusterClient(o), nil
	}
	o, err := redis.ParseURL(l.URL())
	if err != nil {
		return nil, err
	}
	o.ContextTimeoutEnabled = true
	return redis.NewClient(o), nil
}
