package dynamoleader

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/goleader/leader/backend"
)

// Advise looks at the table. It warns of replicas in other Regions that are not strongly consistent, of a key that is not
// ours, and of a TTL on another attribute than ours. What the user must not see is passed over.
func (b *Backend) Advise(ctx context.Context) ([]string, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	a := ask()
	found, err := b.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &b.table})
	if err != nil {
		return nil, passOver(b.failed(ctx, a, err))
	}
	b.heard(a, found.ResultMetadata)
	list := tableAdvice(found.Table)
	a = ask()
	ttl, err := b.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &b.table})
	if err != nil {
		if isUnknown(err) {
			return list, nil
		}
		return list, passOver(b.failed(ctx, a, err))
	}
	b.heard(a, ttl.ResultMetadata)
	return append(list, ttlAdvice(b.table, ttl.TimeToLiveDescription)...), nil
}

// passOver drops a refusal.
func passOver(err error) error {
	if backend.KindOf(err) == backend.Denied {
		return nil
	}
	return err
}

func tableAdvice(table *types.TableDescription) []string {
	var list []string
	if err := checkSchema(table); err != nil {
		list = append(list, err.Error())
	}
	if len(table.Replicas) > 0 && table.MultiRegionConsistency != types.MultiRegionConsistencyStrong {
		list = append(list, fmt.Sprintf("table %q has replicas in other Regions that learn of a lease a moment later, so "+
			"that two may lead; use a table of one Region, the same Region everywhere, or multi-Region strong consistency",
			aws.ToString(table.TableName)))
	}
	return list
}

func ttlAdvice(table string, d *types.TimeToLiveDescription) []string {
	if d == nil || d.TimeToLiveStatus != types.TimeToLiveStatusEnabled || aws.ToString(d.AttributeName) == attrExpires {
		return nil
	}
	return []string{fmt.Sprintf("table %q has a TTL on the attribute %q, want %q: items of names that are no longer used "+
		"stay for ever, or are deleted while they are used", table, aws.ToString(d.AttributeName), attrExpires)}
}
