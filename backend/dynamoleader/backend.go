package dynamoleader

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/goleader/leader/backend"
)

const (
	// DefaultTable is the name of the table where none is given.
	DefaultTable = "leader"

	minTTL = 100 * time.Millisecond
	maxTTL = 10 * 365 * 24 * time.Hour

	// conflictRetries is how often a call goes on at once when the item changed under it.
	conflictRetries = 3
)

// What DynamoDB allows as the name of a table.
var tablePattern = regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`)

// Options change the defaults of a [Backend]; the zero value keeps them.
type Options struct {
	// Table is the name of the table, which has to exist, see [Backend.Migrate]; "" means [DefaultTable]. Backends exclude
	// each other only if account, Region and table are the same.
	Table string
}

// Backend elects on the items of one table. Its methods may be called concurrently.
type Backend struct {
	table    string
	client   *dynamodb.Client
	invalid  error // why the client or the options are refused
	memory   *memory
	attempts attempts
	clock    clock
}

var (
	_ backend.Driver       = (*Backend)(nil)
	_ backend.Limited      = (*Backend)(nil)
	_ backend.Checker      = (*Backend)(nil)
	_ backend.Advisor      = (*Backend)(nil)
	_ backend.SlotAcquirer = (*Backend)(nil)
	_ backend.Records      = (*Backend)(nil)
	_ backend.Lister       = (*Backend)(nil)
	_ backend.Breaker      = (*Backend)(nil)
)

// New returns a backend on client, which stays the caller's. It takes over the client's endpoint, credentials and
// transport, and leaves out its retries: package leader tries again, within the time that it has. Nil options mean the
// defaults. New does no I/O; [Backend.Check] says what is wrong with the client and the options, and every other call
// repeats it.
func New(client *dynamodb.Client, opts *Options) *Backend {
	b := &Backend{table: DefaultTable, memory: newMemory()}
	if opts != nil && opts.Table != "" {
		b.table = opts.Table
	}
	b.invalid = backend.WithKind(check(client, b.table), backend.Misconfigured)
	if client != nil {
		b.client = dynamodb.New(client.Options(), once)
	}
	return b
}

// once are the options of a client that sends each request once, over connections that can be closed when idle.
func once(o *dynamodb.Options) {
	o.Retryer = aws.NopRetryer{}
	if given, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
		o.HTTPClient = &http.Client{
			Transport: given.GetTransport(), Timeout: given.GetTimeout(), CheckRedirect: lastResponse,
		}
	}
	if o.Credentials != nil && !aws.IsCredentialsProvider(o.Credentials, (*aws.AnonymousCredentials)(nil)) {
		o.Credentials = credentials{o.Credentials}
	}
}

// lastResponse follows no redirection. The service makes none, and another host could not check the signature.
func lastResponse(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Name returns "dynamodb".
func (b *Backend) Name() string { return "dynamodb" }

// Limits returns the bounds of a TTL. An attempt that finds the key held is charged as a write, so that who waits looks
// first.
func (b *Backend) Limits() backend.Limits {
	return backend.Limits{MinTTL: minTTL, MaxTTL: maxTTL, LookFirst: true}
}

// Check reports everything that is wrong with the client and the options, of kind [backend.Misconfigured].
func (b *Backend) Check() error { return b.invalid }

// Close closes the connections that are idle. Where the client has the SDK's own transport, those of a backend are its
// own, and would stay for another minute and a half. Leases are not affected, and the backend can still be used.
func (b *Backend) Close() error {
	if b.client != nil {
		b.closeIdle()
	}
	return nil
}

// ready says why no request may be sent.
func (b *Backend) ready(ctx context.Context) error {
	if b.invalid != nil {
		return b.invalid
	}
	return ctx.Err()
}

func check(client *dynamodb.Client, table string) error {
	var errs []error
	if client == nil {
		errs = append(errs, errors.New("the client is nil"))
	} else if o := client.Options(); o.Region == "" && o.BaseEndpoint == nil {
		errs = append(errs, errors.New("the client has no Region"))
	}
	if !tablePattern.MatchString(table) {
		errs = append(errs, fmt.Errorf("%q is no name of a table", table))
	}
	return errors.Join(errs...)
}

func checkTTL(ttl time.Duration) error {
	switch {
	case ttl < minTTL:
		return backend.WithKind(fmt.Errorf("a TTL of %v is under the limit of %v", ttl, minTTL), backend.Misconfigured)
	case ttl > maxTTL:
		return backend.WithKind(fmt.Errorf("a TTL of %v is over the limit of %v", ttl, maxTTL), backend.Misconfigured)
	}
	return nil
}

func checkKeep(keep time.Duration) error {
	if keep > maxTTL {
		return backend.WithKind(fmt.Errorf("a keep of %v is over the limit of %v", keep, maxTTL), backend.Misconfigured)
	}
	return nil
}
