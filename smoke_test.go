package leader_test

import (
	"context"
	"testing"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
)

func TestSmoke(t *testing.T) {
	e, err := leader.New(local.New())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r, err := e.RunIfLeader(t.Context(), "a", func(ctx context.Context) error {
			l, ok := leader.LeaseFrom(ctx)
			if !ok {
				t.Error("no lease")
			}
			r, err := e.RunIfLeader(context.Background(), "a", func(context.Context) error { return nil })
			t.Log(r, err, l.Info())
			_, err = e.RunIfLeader(ctx, "a", func(context.Context) error { return nil })
			t.Log(err)
			return nil
		})
		t.Log(r, err)
	}
}

func BenchmarkRun(b *testing.B) {
	e, _ := leader.New(local.New())
	b.ReportAllocs()
	f := func(context.Context) error { return nil }
	for b.Loop() {
		e.RunIfLeader(context.Background(), "a", f)
	}
}

func BenchmarkCancel(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, c := context.WithCancelCause(context.Background())
		c(nil)
	}
}
