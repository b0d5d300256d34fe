package dynamoleader_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/dynamoleader"
	"github.com/goleader/leader/internal/exampletest"
	"github.com/goleader/leader/internal/testserver"
)

// In a service, the configuration is what config.LoadDefaultConfig(ctx) returns.
var (
	awsConfig = aws.Config{Region: "eu-central-1"}
	tableName = "shop-leader"
)

// The table is made once, by whoever deploys the service. Migrate may be repeated.
func ExampleBackend_Migrate() {
	b := dynamoleader.New(dynamodb.NewFromConfig(awsConfig), &dynamoleader.Options{Table: tableName})
	defer b.Close()
	ctx := context.Background()
	if err := b.Migrate(ctx); err != nil {
		fmt.Println(err)
		return
	}
	warnings, err := b.Advise(ctx)
	fmt.Println("warnings:", len(warnings), err) // warnings: 0 <nil>
}

// Two processes share the table, and one of them writes the nightly report.
func Example() {
	b := dynamoleader.New(dynamodb.NewFromConfig(awsConfig), &dynamoleader.Options{Table: tableName})
	defer b.Close()
	ctx := context.Background()
	web1, err := leader.New(b, leader.WithNodeID("web-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	web2, err := leader.New(b, leader.WithNodeID("web-2")) // in a service, that of another process
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := web1.RunIfLeader(ctx, "nightly-report", func(ctx context.Context) error {
		other, err := web2.RunIfLeader(ctx, "nightly-report", func(context.Context) error {
			fmt.Println("never printed: web-1 leads")
			return nil
		})
		fmt.Println("web-2:", other) // web-2: Skipped (Contended, held by web-1)
		return err
	})
	fmt.Println("web-1:", result.Outcome, errors.Join(err, result.Err)) // web-1: Elected <nil>
}

func TestExamples_PrintWhatTheySay(t *testing.T) {
	server := testserver.Dynamo(t)
	o := client(t, server.URL(), nil).Options()
	awsConfig = aws.Config{
		BaseEndpoint: o.BaseEndpoint, Region: o.Region, Credentials: o.Credentials, HTTPClient: o.HTTPClient,
	}
	tableName = fresh()
	if !server.Owned() {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
			defer cancel()
			_, _ = client(t, server.URL(), nil).DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &tableName})
		})
	}
	const want = "warnings: 0 <nil>\nweb-2: Skipped (Contended, held by web-1)\nweb-1: Elected <nil>\n"
	exampletest.Prints(t, want, ExampleBackend_Migrate, Example)
}
