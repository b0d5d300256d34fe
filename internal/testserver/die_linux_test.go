package testserver

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const victimEnv = "TESTSERVER_VICTIM"

// victims start a server, and leave it as it is to be when its parent dies.
var victims = map[string]func(t TB) *Server{
	"redis":    func(t TB) *Server { t.Helper(); return Redis(t) },
	"postgres": func(t TB) *Server { t.Helper(); return Postgres(t) },
	"stopped postgres": func(t TB) *Server {
		t.Helper()
		s := Postgres(t)
		s.Stop(t)
		return s
	},
}

// TestMain makes this program the one that TestServer_DiesWithItsParent kills, if it is asked to.
func TestMain(m *testing.M) {
	victim, ok := victims[os.Getenv(victimEnv)]
	if !ok {
		os.Exit(m.Run())
	}
	err := Run(context.Background(), func(t TB) {
		s := victim(t)
		pid := s.process.child.process.Pid
		started, err := children(pid)
		if err != nil {
			t.Fatalf("%v", err)
		}
		fmt.Println("server", s.process.dir, append(started, pid))
		time.Sleep(patience)
	})
	fmt.Println("not killed in time:", err)
	os.Exit(1)
}

func TestServer_DiesWithItsParent(t *testing.T) {
	for name, start := range victims {
		t.Run(name, func(t *testing.T) {
			t.Setenv(RedisURLEnv, "")
			t.Setenv(PostgresURLEnv, "")
			start(t).Kill9(t) // or skip
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			dir, pids := killParent(ctx, t, name)
			t.Cleanup(func() {
				removePostgresMemory(context.WithoutCancel(ctx), filepath.Join(dir, "data"))
				if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			})
			for look := time.NewTicker(lookPeriod); slices.ContainsFunc(pids, alive); {
				select {
				case <-look.C:
				case <-ctx.Done():
					t.Fatalf("one of %v outlived its parent", pids)
				}
			}
		})
	}
}

// killParent kills a process that has started a server, and returns the server's folder and the ids of its processes.
func killParent(ctx context.Context, t *testing.T, name string) (dir string, pids []int) {
	t.Helper()
	parent := exec.CommandContext(ctx, os.Args[0])
	parent.Env = append(os.Environ(), victimEnv+"="+name)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for dir == "" && lines.Scan() {
		if said, ok := strings.CutPrefix(lines.Text(), "server "); ok {
			dir, said, _ = strings.Cut(said, " ")
			for field := range strings.FieldsSeq(strings.Trim(said, "[]")) {
				var pid int
				if _, err := fmt.Sscan(field, &pid); err != nil {
					t.Error(err)
				}
				pids = append(pids, pid)
			}
		}
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // "killed"
	if dir == "" || slices.Contains(pids, 0) {
		t.Fatalf("no server was started: %q %v", dir, pids)
	}
	return dir, pids
}
