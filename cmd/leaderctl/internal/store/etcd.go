package store

import (
	"cmp"
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/etcdleader"
)

// etcdRights are those on keys with a prefix, "leader/" if it is empty.
func etcdRights(prefix string) string {
	return "etcdctl role grant-permission ROLE --prefix=true readwrite " + cmp.Or(prefix, "leader/")
}

// openEtcd opens a cluster. With a user and a password its client logs in at once.
func openEtcd(ctx context.Context, l *Location, _ Options) (*Store, error) {
	options := &etcdleader.Options{Prefix: l.Own("prefix")}
	secure, err := tlsOf(l)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(l.Done(), l.noPath()); err != nil {
		return nil, err
	}
	client, err := connectEtcd(ctx, clientv3.Config{
		Endpoints: l.addresses("2379"), Username: l.User, Password: l.Password, TLS: secure,
		DialKeepAliveTime: 5 * time.Second, DialTimeout: connectTime, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{etcdleader.QuickReconnect()},
	})
	if err != nil {
		return nil, err
	}
	b := etcdleader.New(client, options)
	s := &Store{Driver: b, Rights: etcdRights(options.Prefix)}
	s.closes(client.Close)
	s.closes(b.Close)
	return s, nil
}

// connectEtcd makes a client, which outlives ctx. What it does at once ends with ctx.
func connectEtcd(ctx context.Context, config clientv3.Config) (*clientv3.Client, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	config.Context = life
	client, err := clientv3.New(config)
	inTime := stop()
	switch {
	case err != nil:
		cancel()
		return nil, backend.WithKind(err, kindOfLogin(err))
	case !inTime:
		return nil, errors.Join(backend.WithKind(ctx.Err(), backend.Unavailable), client.Close())
	}
	return client, nil // its Close ends life
}

// kindOfLogin is the kind of an error of a new client: the server was not reached, refused the user, or was not asked.
func kindOfLogin(err error) backend.Kind {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return backend.Unavailable
	}
	answer, ok := errors.AsType[interface {
		error
		Code() codes.Code
	}](err)
	if !ok {
		return backend.Unknown
	}
	switch answer.Code() { //nolint:exhaustive // the others are answers of a server that lets nobody in
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Aborted, codes.Unknown:
		return backend.Unavailable
	}
	return backend.Denied
}
