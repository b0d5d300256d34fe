package etcdleader

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// sendOnce sends what changes something once. The client sends a request again whose answer says that a deadline passed
// or that it was canceled, if that was not its caller's doing: then the first may still be on its way when the second is
// answered. Here such an answer is the error of the call.
type sendOnce struct{ pb.KVClient }

// newKV returns what changes keys.
func newKV(client *clientv3.Client) clientv3.KV {
	return clientv3.NewKVFromKVClient(sendOnce{clientv3.RetryKVClient(client)}, client)
}

func (k sendOnce) Txn(ctx context.Context, r *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	ctx, end := context.WithCancel(untold(ctx))
	defer end()
	return k.KVClient.Txn(ctx, r, append(opts, endsWith(end))...)
}

func (k sendOnce) DeleteRange(
	ctx context.Context, r *pb.DeleteRangeRequest, opts ...grpc.CallOption,
) (*pb.DeleteRangeResponse, error) {
	ctx, end := context.WithCancel(untold(ctx))
	defer end()
	return k.KVClient.DeleteRange(ctx, r, append(opts, endsWith(end))...)
}

// endsWith ends the context of a call with its first answer, before the client looks whether to send it again. It leaves
// those errors after which the client does that because nothing was done.
func endsWith(end context.CancelFunc) grpc.CallOption {
	return grpc.OnFinish(func(err error) {
		switch status.Code(err) { //nolint:exhaustive // the others are not such answers
		case codes.OK, codes.DeadlineExceeded, codes.Canceled:
			end()
		}
	})
}

// untold is ctx with a deadline that the server is not told. The request ends here all the same, and the server bounds
// by itself what it does; a timer of its own for each request costs it more than it is worth.
func untold(ctx context.Context) context.Context { return noDeadline{ctx} }

type noDeadline struct{ context.Context } //nolint:containedctx // it is one

func (noDeadline) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
