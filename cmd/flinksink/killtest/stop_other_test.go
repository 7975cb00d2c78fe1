//go:build !unix

package killtest

import "errors"

const canStop = false

var errNoStop = errors.New("processes cannot be stopped here")

func stopHere(func()) error { return errNoStop }

func (p *process) stop() error { return errNoStop }

func (p *process) wake() error { return errNoStop }
