//go:build unix

package child

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	// slowly is a variable that makes a guard slow to start.
	slowly = "CHILD_TEST_SLOWLY"
	// dying is a variable that makes a guard end when it has got its order and said that it starts the command.
	dying = "CHILD_TEST_DYING"
)

const watchdog = 30 * time.Second

func TestMain(m *testing.M) {
	if !IsGuard() {
		os.Exit(m.Run())
	}
	d, _ := time.ParseDuration(os.Getenv(slowly)) // zero without
	time.Sleep(d)
	if os.Getenv(dying) != "" {
		_ = gob.NewDecoder(os.NewFile(ordersFile, "orders")).Decode(&order{})
		_ = gob.NewEncoder(os.NewFile(reportsFile, "reports")).Encode(report{Starts: true})
		os.Exit(1)
	}
	os.Exit(Guard())
}

func shell(script string) *Command {
	return &Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ(),
		Grace: 100 * time.Millisecond, Reserve: 100 * time.Millisecond,
	}
}

func wantStatus(t *testing.T, p *Process, want Status) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(watchdog):
		t.Fatal("the command does not end")
	}
	if got := p.Status(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestStart_AGuardThatIsSlowGetsALargeEnvironment(t *testing.T) {
	t.Setenv(slowly, "500ms")
	c := shell(`exit $((${#LARGE0} + ${#LARGE1} == 200000 ? 7 : 8))`)
	for i := range 2 { // one alone may not be so large
		c.Env = append(c.Env, "LARGE"+strconv.Itoa(i)+"="+strings.Repeat("x", 100_000))
	}
	p, err := Start(t.Context(), c, time.Now().Add(watchdog))
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, p, Status{Code: 7, Cause: ByItself})
}

func TestStart_DoesNotWaitForAGuardBeyondTheDeadline(t *testing.T) {
	t.Setenv(slowly, "1m")
	result := make(chan error, 1)
	go func() {
		_, err := Start(t.Context(), shell("true"), time.Now().Add(time.Second))
		result <- err
	}()
	select {
	case err := <-result:
		if !errors.Is(err, ErrLate) || errors.Is(err, ErrUncertain) {
			t.Errorf("got %v", err)
		}
	case <-time.After(watchdog):
		t.Error("it waits")
	}
}

func TestStart_SaysWhetherTheCommandMayHaveBeenStarted(t *testing.T) {
	none := shell("true")
	none.Path = "/no/such/program"
	if _, err := Start(t.Context(), none, time.Now().Add(watchdog)); !errors.Is(err, ErrNotRun) || errors.Is(err, ErrUncertain) {
		t.Errorf("no such program: %v", err)
	}
	if _, err := Start(t.Context(), shell("true"), time.Now()); !errors.Is(err, ErrLate) || errors.Is(err, ErrUncertain) {
		t.Errorf("too late: %v", err)
	}
	t.Setenv(dying, "1")
	if _, err := Start(t.Context(), shell("true"), time.Now().Add(watchdog)); !errors.Is(err, ErrUncertain) {
		t.Errorf("a guard that dies: %v", err)
	}
}

func TestGuard_EndsAGroupThatItsToolDidNotLiveToSee(t *testing.T) {
	t.Parallel()
	orders, toGuard, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromGuard, reports, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := fromGuard.Close(); err != nil { // as of a tool that was killed
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	defer cancel()
	guard := exec.CommandContext(ctx, os.Args[0])
	guard.Args = []string{guardName}
	guard.ExtraFiles = []*os.File{orders, reports}
	if err := guard.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = orders.Close(), reports.Close()
	file := filepath.Join(t.TempDir(), "group")
	c := shell("sleep 60 & echo $$ > " + file + ".new && mv " + file + ".new " + file + "; wait")
	if err := gob.NewEncoder(toGuard).Encode(order{Command: c, Until: at(time.Now().Add(time.Hour))}); err != nil {
		t.Fatal(err)
	}
	var group int
	eventually(t, "the start of the command", func() bool {
		text, err := os.ReadFile(file)
		group, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	if err := toGuard.Close(); err != nil {
		t.Fatal(err)
	}
	_ = guard.Wait() // it has nobody to tell
	eventually(t, "the end of the group", func() bool { return isEmpty(group) })
}

func TestGuard_IsTheParentOfOrphans(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has such parents")
	}
	file := filepath.Join(t.TempDir(), "parent")
	// The one in the middle ends at once, and leaves an orphan that writes down who its parent is then.
	script := `sh -c 'sh -c "while [ ! -e FILE.go ]; do sleep 0.01; done; grep PPid /proc/\$\$/status >FILE.new; mv FILE.new FILE" &'
		: >FILE.go; while [ ! -e FILE ]; do sleep 0.01; done`
	p, err := Start(t.Context(), shell(strings.ReplaceAll(script, "FILE", file)), time.Now().Add(watchdog))
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, p, Status{Code: 0, Cause: ByItself})
	text, err := os.ReadFile(file)
	if want := fmt.Sprintf("PPid:\t%d\n", p.guard.Process.Pid); err != nil || string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
	if !isEmpty(p.group) {
		t.Error("something of the group is left")
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(watchdog); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, watchdog)
		}
	}
}
