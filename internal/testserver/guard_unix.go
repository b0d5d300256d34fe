//go:build unix

package testserver

import (
	"context"
	"io"
	"os/exec"
	"strconv"
)

// guard makes a shell kill stopped processes if this one ends in whatever way before it has called release. The
// children of a server do not die with its parent, and a stopped one would be left for good.
func guard(pids []int) (release func(), err error) {
	// The end of this process closes the pipe from which the shell reads. Signals from a terminal are for this process.
	args := []string{"-c", `trap "" HUP INT QUIT TERM; read -r _ || kill -9 "$@"`, "sh"}
	for _, pid := range pids {
		args = append(args, strconv.Itoa(pid))
	}
	ctx := context.Background() //nolint:forbidigo // It outlives every test.
	cmd := exec.CommandContext(ctx, "sh", args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_, _ = io.WriteString(in, "released\n") // It reads until then.
		_ = cmd.Wait()                          // It was not killed by us, and nothing depends on how it ends.
	}, nil
}
