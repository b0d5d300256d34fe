//go:build !unix

package testserver

import "syscall"

// attributes has nothing to add: there is no owner where there is no root.
func (o *owner) attributes(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }
