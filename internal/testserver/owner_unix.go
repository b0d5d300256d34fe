//go:build unix

package testserver

import "syscall"

// attributes adds to those of a child that it runs as the owner.
func (o *owner) attributes(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	if o == nil {
		return attr
	}
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	attr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)} //nolint:gosec // Ids of the system.
	return attr
}
