package sqliteleader_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqliteleader"
)

// These name a child's part and its file; see TestMain.
const (
	partVar = "SQLITELEADER_TEST_PART"
	fileVar = "SQLITELEADER_TEST_FILE"
)

// TestMain is also what child processes run.
func TestMain(m *testing.M) {
	parts := map[string]func(context.Context, *sqliteleader.Backend) error{
		"hold": hold, "contend": contend, "share": share, "raise": raise,
	}
	part, ok := parts[os.Getenv(partVar)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := play(part); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(part func(context.Context, *sqliteleader.Backend) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b, err := sqliteleader.Open(os.Getenv(fileVar), nil)
	if err != nil {
		return err
	}
	return errors.Join(part(ctx, b), b.Close())
}

// hold takes "k" for a while, prints the fence, and hangs.
func hold(ctx context.Context, b *sqliteleader.Backend) error {
	l, err := b.TryAcquire(ctx, request("k", holdTTL))
	if err != nil {
		return err
	}
	fmt.Println(l.Fence())
	<-ctx.Done()
	return nil
}

const holdTTL = 2 * time.Second

// contend runs terms one after another, and prints for each its fence and what it counted by a plain read and write of
// a file beside the database, which only works in turns.
func contend(ctx context.Context, b *sqliteleader.Backend) error {
	for range terms {
		l, err := win(ctx, b)
		if err != nil {
			return err
		}
		n, err := count(os.Getenv(fileVar) + ".count")
		if err != nil {
			return err
		}
		fmt.Println(l.Fence(), n)
		err = l.Release(ctx, 0)
		for backend.KindOf(err) == backend.Unavailable && ctx.Err() == nil {
			err = l.Release(ctx, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// win tries for "k" until it has it.
func win(ctx context.Context, b *sqliteleader.Backend) (backend.Lease, error) {
	for {
		req := request("k", time.Minute)
		req.Token = fmt.Sprintf("%d-%s", os.Getpid(), req.Token)
		l, err := b.TryAcquire(ctx, req)
		if err == nil {
			return l, nil
		}
		if held, ok := errors.AsType[*backend.HeldError](err); ok {
			err = b.AwaitRelease(ctx, "k", held.Holder.Seen)
		}
		if err != nil && (backend.KindOf(err) != backend.Unavailable || ctx.Err() != nil) {
			return nil, err
		}
	}
}

const terms = 20

func count(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	n, _ := strconv.Atoi(string(text))
	n++
	return n, os.WriteFile(path, []byte(strconv.Itoa(n)), 0o600)
}

// child starts this test binary in a part.
func child(t *testing.T, part, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), partVar+"="+part, fileVar+"="+path)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// together runs several processes in a part and returns the lines that they print.
func together(t *testing.T, part, path string) []string {
	t.Helper()
	var lines []string
	type running struct {
		cmd *exec.Cmd
		out *bufio.Scanner
	}
	var all []running
	for range processes {
		cmd, out := child(t, part, path)
		all = append(all, running{cmd, out})
	}
	for _, r := range all {
		for r.out.Scan() {
			lines = append(lines, r.out.Text())
		}
		if err := r.cmd.Wait(); err != nil {
			t.Errorf("a process ended with %v", err)
		}
	}
	return lines
}

const processes = 3

func TestBackend_TwoProcesses_TakeTurns(t *testing.T) {
	counted := make(map[int]uint64) // what was counted → the fence
	for _, line := range together(t, "contend", newPath(t)) {
		var fence uint64
		var n int
		if _, err := fmt.Sscan(line, &fence, &n); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if other, twice := counted[n]; twice {
			t.Errorf("terms %d and %d both counted %d", other, fence, n)
		}
		counted[n] = fence
	}
	for n := 1; n <= processes*terms; n++ {
		if counted[n] <= counted[n-1] {
			t.Errorf("term %d has fence %d after %d", n, counted[n], counted[n-1])
		}
	}
}

func TestBackend_KilledHolder_KeepsItsLeaseAndNoLonger(t *testing.T) {
	path := newPath(t)
	begin := time.Now()
	cmd, out := child(t, "hold", path)
	if !out.Scan() {
		t.Fatal("the holder printed no fence")
	}
	acquired := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the holder was not killed")
	}
	b := open(t, path)
	h := wantHeld(t, b, "k")
	if fence := strings.TrimSpace(out.Text()); fence != strconv.FormatUint(h.Fence, 10) {
		t.Errorf("the killed holder had fence %s, the file says %d", fence, h.Fence)
	}
	eventually(t, 10*time.Second, "take-over", func() bool {
		_, err := b.TryAcquire(t.Context(), request("k", lasting))
		return err == nil
	})
	if d := time.Since(begin); d < holdTTL {
		t.Errorf("taken over %v after the holder was started", d)
	}
	t.Logf("taken over %v after the lease of %v was acquired", time.Since(acquired), holdTTL)
}

func TestBackend_FirstUse_ByManyAtOnce(t *testing.T) {
	const many = 6
	for range 20 {
		path := newPath(t)
		results := make(chan error, many)
		for range many {
			b := open(t, path)
			req := request("k", lasting)
			ctx := bounded(t, watchdog)
			go func() {
				_, err := b.TryAcquire(ctx, req)
				for backend.KindOf(err) == backend.Unavailable && ctx.Err() == nil {
					_, err = b.TryAcquire(ctx, req)
				}
				results <- err
			}()
		}
		won := 0
		for range many {
			err := <-results
			if err == nil {
				won++
			} else if !errors.Is(err, backend.ErrHeld) {
				t.Errorf("TryAcquire: %v", err)
			}
		}
		if won != 1 {
			t.Errorf("%d of %d won", won, many)
		}
	}
}
