//go:build !linux

package testserver

import "syscall"

// dieWithParent has no counterpart here: a child outlives a process that is killed before its clean-ups.
func dieWithParent() *syscall.SysProcAttr { return nil }
