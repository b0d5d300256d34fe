package store

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/goleader/leader/backend/etcdleader"
)

const etcdRights = "etcdctl role grant-permission ROLE --prefix=true readwrite leader/"

func openEtcd(_ context.Context, l *Location, _ Options) (*Store, error) {
	options := &etcdleader.Options{Prefix: l.Own("prefix")}
	secure, err := tlsOf(l)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(l.Done(), l.noPath()); err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: l.addresses("2379"), Username: l.User, Password: l.Password, TLS: secure,
		DialKeepAliveTime: 5 * time.Second, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{etcdleader.QuickReconnect()},
	})
	if err != nil {
		return nil, err
	}
	b := etcdleader.New(client, options)
	s := &Store{Driver: b, Rights: etcdRights}
	s.closes(client.Close)
	s.closes(b.Close)
	return s, nil
}
