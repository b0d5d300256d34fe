package consulleader_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain lets more tests run beside each other than there are processors. They wait for leases to end most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}
