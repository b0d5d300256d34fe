package k8sleader

import (
	"context"
	"errors"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes/scheme"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
)

// fieldManager is who wrote, in managedFields.
const fieldManager = "leader"

// api is the user's connection to the server, with the server's time of each answer.
type api struct {
	leases  coordination.LeaseInterface
	limiter flowcontrol.RateLimiter
	http    *http.Client
}

func newAPI(client coordination.CoordinationV1Interface, namespace string) (*api, error) {
	if client == nil {
		return nil, errors.New("the client is nil")
	}
	given, ok := client.RESTClient().(*rest.RESTClient)
	if !ok || given == nil || given.Client == nil {
		return nil, errors.New("the client has no connection to a server; a fake one does not exclude anybody")
	}
	// The user's transport and limits, with a timeout for each call instead of one for all, which would end watches.
	own := *given.Client
	own.Transport = dated{transportOf(given.Client)}
	own.Timeout = 0
	group := coordinationv1.SchemeGroupVersion
	connection, err := rest.NewRESTClient(given.Get().URL(), "", rest.ClientContentConfig{
		AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
		ContentType:        runtime.ContentTypeProtobuf,
		GroupVersion:       group,
		Negotiator:         runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), group),
	}, given.GetRateLimiter(), &own)
	if err != nil {
		return nil, err
	}
	return &api{
		leases:  coordination.New(connection).Leases(namespace),
		limiter: given.GetRateLimiter(),
		http:    given.Client,
	}, nil
}

func transportOf(client *http.Client) http.RoundTripper {
	if client.Transport == nil {
		return http.DefaultTransport
	}
	return client.Transport
}

// closeIdle closes the connections that no request uses. One that has just swallowed a request would swallow the next.
func (a *api) closeIdle() { utilnet.CloseIdleConnectionsFor(transportOf(a.http)) }

// answer is when a request was sent and answered, and the server's time in whole seconds, zero if it told none.
type answer struct {
	sent, at time.Time
	date     time.Time
}

type answerKey struct{}

// ask returns a context for one request, and the place where its answer is noted. The client would log what it returns
// as an error as well.
func ask(ctx context.Context) (context.Context, *answer) {
	a := &answer{sent: time.Now()}
	return context.WithValue(klog.NewContext(ctx, klog.Logger{}), answerKey{}, a), a
}

// dated notes the server's time of each answer.
type dated struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (d dated) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := d.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if a, ok := request.Context().Value(answerKey{}).(*answer); ok {
		a.at = time.Now()
		a.date, _ = http.ParseTime(response.Header.Get("Date")) // zero if there is none
	}
	return response, nil
}

// WrappedRoundTripper shows the transport below.
func (d dated) WrappedRoundTripper() http.RoundTripper { return d.next }
