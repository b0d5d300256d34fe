package etcdleader

import (
	"context"
	"math"
	"math/rand/v2"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// lessor sends the requests about etcd's leases. The methods of the client will not do: a lease whose id the server
// chooses cannot be revoked when the answer is lost, and a keep-alive on a stream of its own costs an authentication,
// and is repeated without a pause while there is no server.
type lessor struct {
	client pb.LeaseClient
	alive  *keepAliver
}

func newLessor(client *clientv3.Client) *lessor {
	api := clientv3.RetryLeaseClient(client)
	return &lessor{client: api, alive: newKeepAliver(api)}
}

// newLeaseID chooses the id of a lease.
func newLeaseID() int64 { return 1 + rand.Int64N(math.MaxInt64) }

// grant makes a lease, whose TTL the server may make longer.
func (l *lessor) grant(ctx context.Context, id, seconds int64) (*pb.LeaseGrantResponse, error) {
	return l.client.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: seconds})
}

// revoke ends a lease and deletes its key. One that the server does not have is no error; found tells.
func (l *lessor) revoke(ctx context.Context, id int64) (found bool, err error) {
	_, err = l.client.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: id})
	if isDead(err) {
		return false, nil
	}
	return err == nil, err
}
