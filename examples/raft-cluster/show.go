package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// show starts three processes, kills the one that leads, waits until another works, and brings the dead one back.
func show(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 45*time.Second)
	defer cancel()
	dir, err := os.MkdirTemp("", "leader-raft-cluster-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	addrs, err := freePorts(ctx, 3)
	if err != nil {
		return err
	}
	c := &cluster{dir: dir, addrs: addrs, processes: map[string]*exec.Cmd{}, lines: make(chan line)}
	defer c.stop()
	for _, id := range ids {
		if err := c.start(id); err != nil {
			return err
		}
	}
	dead, err := c.await(ctx, "", "works, step 3")
	if err != nil {
		return err
	}
	say("show", "kills %s, which leads", dead)
	if err := c.kill(dead); err != nil {
		return err
	}
	if _, err := c.await(ctx, "", "works, step 3"); err != nil {
		return err
	}
	say("show", "starts %s again, from its disk", dead)
	if err := c.start(dead); err != nil {
		return err
	}
	if _, err := c.await(ctx, dead, "has started"); err != nil {
		return err
	}
	_, err = c.await(ctx, "", "works")
	return err
}

// ids are the names of the processes.
var ids = []string{"a", "b", "c"}

// cluster is the processes by name, and what they print.
type cluster struct {
	dir       string
	addrs     []string // in the order of ids
	processes map[string]*exec.Cmd
	reading   sync.WaitGroup
	lines     chan line
}

// line is what a process printed.
type line struct{ node, text string }

// start starts this program again as a process of the service.
func (c *cluster) start(id string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	p := exec.Command(program, //nolint:noctx // stop ends it gently
		"-node", id, "-addr", c.addrs[slices.Index(ids, id)], "-peers", strings.Join(c.addrs, ","),
		"-dir", filepath.Join(c.dir, id))
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return fmt.Errorf("start %s: %w", id, err)
	}
	c.processes[id] = p
	c.reading.Go(func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			fmt.Println(s.Text())
			c.lines <- line{id, s.Text()}
		}
	})
	return nil
}

// await returns who prints a text next. An empty id means anybody.
func (c *cluster) await(ctx context.Context, id, text string) (node string, err error) {
	wanted := regexp.MustCompile(regexp.QuoteMeta(text) + `\b`)
	for {
		select {
		case l := <-c.lines:
			if (id == "" || id == l.node) && wanted.MatchString(l.text) {
				return l.node, nil
			}
		case <-ctx.Done():
			return "", fmt.Errorf("nobody %s: %w", text, ctx.Err())
		}
	}
}

// kill kills a process without warning.
func (c *cluster) kill(id string) error {
	p := c.processes[id]
	delete(c.processes, id)
	err := p.Process.Kill()
	_ = p.Wait() // it says that the process was killed
	return err
}

// stop asks the processes to stop, and waits for them.
func (c *cluster) stop() {
	go func() {
		for range c.lines { // what they print meanwhile is of no interest any more
		}
	}()
	var errs []error
	for _, p := range c.processes {
		if runtime.GOOS == "windows" {
			errs = append(errs, p.Process.Kill()) // it cannot be asked there
		} else {
			errs = append(errs, p.Process.Signal(os.Interrupt))
		}
	}
	c.reading.Wait()
	close(c.lines)
	for _, p := range c.processes {
		errs = append(errs, p.Wait())
	}
	if err := errors.Join(errs...); err != nil {
		say("show", "could not stop the processes: %v", err)
	}
}

// freePorts returns addresses on which nobody listens.
func freePorts(ctx context.Context, n int) (addrs []string, err error) {
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() //nolint:gocritic // all at the end, lest a port comes twice
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
