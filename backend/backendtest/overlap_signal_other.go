//go:build !unix

package backendtest

import (
	"errors"
	"os"
)

// canStop says that processes cannot be stopped and continued here.
const canStop = false

func stopProcess(*os.Process) error { return errors.ErrUnsupported }

func continueProcess(*os.Process) error { return errors.ErrUnsupported }
