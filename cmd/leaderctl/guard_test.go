//go:build unix

package main_test

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goleader/leader/internal/testserver"
)

// guardOf is the process that guards a group: the parent of its leader.
func guardOf(t testing.TB, group int) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(group) + "/stat")
	if err != nil {
		t.Skipf("this needs /proc: %v", err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	parent, err := strconv.Atoi(strings.Fields(rest)[1])
	if err != nil {
		t.Fatal(err)
	}
	name, err := os.ReadFile("/proc/" + strconv.Itoa(parent) + "/comm")
	if err != nil || string(name) != "leader-guard\n" {
		t.Fatalf("the parent of the command is %q: %v", name, err)
	}
	return parent
}

func kill(t testing.TB, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("%v to %d: %v", sig, pid, err)
	}
}

// stubborn is a job that nothing ends but KILL, with a child of its own.
func stubborn(t testing.TB) *jobFlags {
	t.Helper()
	return &jobFlags{folder: t.TempDir(), mark: "stubborn", work: watchdog, stubborn: true, fork: true}
}

func TestGuard_EndsTheGroupWhenTheToolIsKilled(t *testing.T) {
	t.Parallel()
	o := stubborn(t)
	v := startJob(t, onSQLite(t), o, "--lease", "1m")
	group := o.started(nil)
	v.signal(t, syscall.SIGKILL)
	eventually(t, "the end of the group", func() bool { return len(alive(group)) == 0 })
	v.wait(t)
}

func TestGuard_EndsTheGroupWhenTheGroupOfTheToolIsKilled(t *testing.T) {
	t.Parallel()
	o := stubborn(t)
	args := append([]string{"run", "job", "--lease", "1m", "--"}, job(o)...)
	v := tool(t, onSQLite(t), args...)
	v.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := v.Start(); err != nil {
		t.Fatal(err)
	}
	group := o.started(nil)
	kill(t, -v.Process.Pid, syscall.SIGKILL)
	eventually(t, "the end of the group", func() bool { return len(alive(group)) == 0 })
	v.wait(t)
}

func TestGuard_EndsTheGroupInTimeWhileTheToolIsStopped(t *testing.T) {
	t.Parallel()
	const lease = 5 * time.Second
	o := stubborn(t)
	settings := []string{"LEADER_STORE=" + testserver.Redis(t).URL()} // a stopped process may keep a file locked
	v := startJob(t, settings, o, "--lease", lease.String(), "--grace", "300ms")
	group := o.started(nil)
	v.signal(t, syscall.SIGSTOP)
	stopped := time.Now()
	eventually(t, "the end of the group", func() bool { return len(alive(group)) == 0 })
	if took := o.lastAlive(t).Sub(stopped); took > lease {
		t.Errorf("it lived for %v after the tool was stopped, and its lease for up to %v", took, lease)
	}
	must(t, 0, settings, "run", "job", "--wait", "20s", "--lease", lease.String(), "--", "true")
	v.signal(t, syscall.SIGCONT)
	if code := v.wait(t); code != 115 {
		t.Errorf("%d: %s", code, v.errs.String())
	}
}

func TestGuard_ItsOwnDeathEndsTheGroup(t *testing.T) {
	t.Parallel()
	o := stubborn(t)
	settings := onSQLite(t)
	v := startJob(t, settings, o, "--lease", "1m")
	group := o.started(nil)
	kill(t, guardOf(t, group), syscall.SIGKILL)
	if code := v.wait(t); code != 118 || !strings.Contains(v.errs.String(), "its guard was") {
		t.Errorf("%d: %s", code, v.errs.String())
	}
	if left := alive(group); len(left) > 0 {
		t.Errorf("alive: %q", left)
	}
	must(t, 0, settings, "run", "job", "--", "true")
}

func TestGuard_AStoppedOneDoesNotKeepTheGroupAlive(t *testing.T) {
	t.Parallel()
	const lease = 9 * time.Second
	o := stubborn(t)
	settings := onSQLite(t)
	v := startJob(t, settings, o, "--lease", lease.String(), "--max-hold", "3s")
	group := o.started(nil)
	guard := guardOf(t, group)
	kill(t, guard, syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(guard, syscall.SIGCONT) }) // so that nothing stays if this fails
	if code := v.wait(t); code != 115 {
		t.Errorf("%d: %s", code, v.errs.String())
	}
	if left := alive(group); len(left) > 0 {
		t.Errorf("alive: %q", left)
	}
}

func TestGuard_TheKernelEndsTheCommandWhenToolAndGuardAreKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills a process whose parent has died")
	}
	o := stubborn(t)
	o.fork = false
	v := startJob(t, onSQLite(t), o, "--lease", "1m")
	group := o.started(nil)
	guard := guardOf(t, group)
	v.signal(t, syscall.SIGSTOP) // so that it does not see the guard's end
	kill(t, guard, syscall.SIGKILL)
	eventually(t, "the end of the command", func() bool { return len(alive(group)) == 0 })
	v.signal(t, syscall.SIGKILL)
	v.wait(t)
}
