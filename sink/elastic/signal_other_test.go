//go:build !unix

package elastic_test

import "os"

const canStop = false

func stop(*os.Process) {}
func wake(*os.Process) {}
