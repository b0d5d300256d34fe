package local

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader/backend"
)

func TestBackend_Records_ThatHaveExpiredAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		for i := range 20 * sweepAt {
			key := fmt.Sprintf("a!x%d/%d", i%7, i)
			if _, err := b.PutRecord(t.Context(), backend.Record{Key: key, TTL: time.Second}); err != nil {
				t.Fatal(err)
			}
			if i%100 == 0 {
				time.Sleep(time.Second)
			}
		}
		if n := b.values.count; n > sweepAt {
			t.Errorf("%d records are stored, of which at most 100 have not expired", n)
		}
		stored := 0
		for _, set := range b.values.sets {
			stored += len(set)
		}
		if stored != b.values.count {
			t.Errorf("%d records are stored, counted as %d", stored, b.values.count)
		}
	})
}
