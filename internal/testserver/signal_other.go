//go:build !unix

package testserver

import (
	"errors"
	"os"
)

func freeze(*os.Process) ([]int, error) { return nil, errors.ErrUnsupported }

func cont(*os.Process) error { return errors.ErrUnsupported }

func kill(p *os.Process) { _ = p.Kill() } // The only error is that it has just ended.

func guard([]int) (release func(), err error) { return nil, errors.ErrUnsupported }
