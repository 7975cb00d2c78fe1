//go:build !linux

package postgres

import "os/exec"

// identities lists as whom the server may run. Elsewhere than on Linux root cannot be somebody else for one program; Postgres then
// says itself that it does not run as root.
func identities() []identity { return []identity{asSelf()} }

// dieWithParent needs Linux. Elsewhere a server outlives a killed parent; the next Start does not remove its data while it runs.
func dieWithParent(*exec.Cmd) {}
