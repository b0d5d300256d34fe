package store

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/goleader/leader/backend/dynamoleader"
)

const dynamoRights = "dynamodb:GetItem, PutItem, UpdateItem, DeleteItem, Query, Scan, DescribeTable and " +
	"DescribeTimeToLive on the table, and CreateTable and UpdateTimeToLive for migrate"

// openDynamoDB uses what the AWS tools would; the host is the Region. User and password are an access key, if there is one.
func openDynamoDB(ctx context.Context, l *Location, _ Options) (*Store, error) {
	endpoint := l.Own("endpoint")
	if err := l.Done(); err != nil {
		return nil, err
	}
	if len(l.Hosts) > 1 {
		return nil, errors.New("dynamodb takes one Region")
	}
	var options []func(*config.LoadOptions) error
	if len(l.Hosts) == 1 {
		options = append(options, config.WithRegion(l.Hosts[0]))
	}
	if l.User != "" {
		own := credentials.NewStaticCredentialsProvider(l.User, l.Password, "")
		options = append(options, config.WithCredentialsProvider(own))
	}
	c, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, err
	}
	client := dynamodb.NewFromConfig(c, func(o *dynamodb.Options) {
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
	})
	b := dynamoleader.New(client, &dynamoleader.Options{Table: l.Path})
	return &Store{Driver: b, Migrate: b.Migrate, Rights: dynamoRights}, nil
}
