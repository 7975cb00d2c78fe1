package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// nobody is the number that Linux gives the user nobody, and the one that files of unmapped users show in a namespace.
const nobody = 65534

// identities lists as whom the server may run, best first.
func identities() []identity {
	if os.Geteuid() != 0 {
		return []identity{asSelf()}
	}
	return []identity{inNamespace(), asNobody()}
}

// inNamespace runs programs in a user namespace whose user nobody is our root: Postgres sees no root, while files that are root's
// stay readable and writable wherever they are.
func inNamespace() identity {
	id := asSelf()
	id.name = "nobody in a user namespace"
	id.apply = func(cmd *exec.Cmd) {
		attr := attributes(cmd)
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: 0, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: 0, Size: 1}}
	}
	return id
}

// asNobody runs programs as the real user nobody. It enters neither root's home nor its cache, so its files are below the folder for
// temporary files.
func asNobody() identity {
	return identity{
		name: "nobody",
		base: func() (string, error) {
			base := filepath.Join(os.TempDir(), "flinksink-postgres")
			if err := os.MkdirAll(base, 0o755); err != nil {
				return "", err
			}
			// The folder for temporary files is everybody's: what is not root's there is a trap.
			st, err := os.Lstat(base)
			if err != nil {
				return "", err
			}
			if sys, ok := st.Sys().(*syscall.Stat_t); !ok || !st.IsDir() || sys.Uid != 0 {
				return "", fmt.Errorf("%s belongs to another user", base)
			}
			return base, os.Chmod(base, 0o755)
		},
		apply: func(cmd *exec.Cmd) {
			attributes(cmd).Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		},
		own: func(dir string) error { return os.Chown(dir, nobody, nobody) },
	}
}

func attributes(cmd *exec.Cmd) *syscall.SysProcAttr {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	return cmd.SysProcAttr
}

// dieWithParent has the kernel send the server a fast shutdown when the thread that started it ends.
func dieWithParent(cmd *exec.Cmd) { attributes(cmd).Pdeathsig = syscall.SIGINT }
