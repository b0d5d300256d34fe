package etcdleader

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goleader/leader/backend"
)

// refusing is a server that answers every request with the same code.
type refusing struct {
	pb.UnimplementedKVServer

	code codes.Code
	got  atomic.Int32
}

func (s *refusing) Txn(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) {
	s.got.Add(1)
	return nil, status.Error(s.code, "refused")
}

func (s *refusing) DeleteRange(context.Context, *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	s.got.Add(1)
	return nil, status.Error(s.code, "refused")
}

func TestKV_SendsOnceWhatMayHaveBeenDone(t *testing.T) {
	for _, code := range []codes.Code{codes.DeadlineExceeded, codes.Canceled, codes.Unavailable} {
		s := &refusing{code: code}
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		pb.RegisterKVServer(server, s)
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{listener.Addr().String()}, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		kv := newKV(client)
		for what, send := range map[string]func() error{
			"a transaction": func() error { _, err := kv.Txn(t.Context()).Then(clientv3.OpDelete("k")).Commit(); return err },
			"a deletion":    func() error { _, err := kv.Delete(t.Context(), "k"); return err },
		} {
			s.got.Store(0)
			err := classify(t.Context(), send())
			if n := s.got.Load(); n != 1 || backend.KindOf(err) != backend.Unavailable {
				t.Errorf("%s answered with %v: sent %d times, with error %v of kind %v", what, code, n, err, backend.KindOf(err))
			}
		}
	}
}
