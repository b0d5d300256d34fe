package testserver

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const victimEnv = "TESTSERVER_VICTIM"

// TestMain makes this program the one that TestRedis_DiesWithItsParent kills, if it is asked to.
func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) == "" {
		os.Exit(m.Run())
	}
	err := Run(context.Background(), func(t TB) {
		fmt.Println("addr " + Redis(t).Addr())
		time.Sleep(patience)
	})
	fmt.Println("not killed in time:", err)
	os.Exit(1)
}

func TestRedis_DiesWithItsParent(t *testing.T) {
	ownRedis(t) // or skip
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	victim := exec.CommandContext(ctx, os.Args[0])
	victim.Env = append(os.Environ(), victimEnv+"=1")
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	addr := ""
	for lines := bufio.NewScanner(out); addr == "" && lines.Scan(); {
		addr, _ = strings.CutPrefix(lines.Text(), "addr ")
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait() // "killed"
	if addr == "" {
		t.Fatal("the victim started no server")
	}

	for look := time.NewTicker(lookPeriod); ; <-look.C {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if ctx.Err() != nil {
			t.Fatal("the server outlived its parent")
		}
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}
