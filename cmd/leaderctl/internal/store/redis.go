package store

import (
	"cmp"
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend/redisleader"
)

// redisRights are those on keys and channels with a prefix, "leader:" if it is empty.
func redisRights(prefix string) string {
	keys := cmp.Or(prefix, "leader:") + "*"
	return "the commands EVALSHA, EVAL, INFO, SUBSCRIBE, SCAN, the keys " + keys + " and the channels " + keys + ": " +
		"ACL SETUSER name +eval +evalsha +@hash +set +del +pexpire +time +info +publish +subscribe +scan " +
		"~" + keys + " &" + keys
}

// openRedis opens one server, with addr a cluster, and with master_name what sentinels tell.
func openRedis(_ context.Context, l *Location, _ Options) (*Store, error) {
	options := &redisleader.Options{Prefix: l.Own("prefix")}
	client, err := redisClient(l)
	if err != nil {
		return nil, err
	}
	b := redisleader.New(client, options)
	s := &Store{Driver: b, Rights: redisRights(options.Prefix)}
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
