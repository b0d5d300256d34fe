//go:build !linux

package main

// yieldAlways reports that it cannot be done here.
func yieldAlways() bool { return false }
