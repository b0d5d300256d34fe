package jobs

import "testing"

func TestServiceOf_IsTheLastElementThatSaysSomething(t *testing.T) {
	for main, want := range map[string]string{
		"github.com/acme/billing":            "billing",
		"github.com/acme/billing/v2":         "billing",
		"github.com/acme/shop/cmd/mailer":    "mailer",
		"command-line-arguments":             "",
		"":                                   "",
		"github.com/acme/billing/cmd/worker": "worker",
	} {
		if got := serviceOf(main); got != want {
			t.Errorf("the service of %q is %q, want %q", main, got, want)
		}
	}
}
